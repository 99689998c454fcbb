// The live app: documents in, questions out, one or two systems side by side.

import type { Page } from "./data";
import { h } from "./dom";
import { load, type Given, type GivenStep } from "./load";
import { mount, mountGraph } from "./mount";
import { BROKEN, Server, type State, type Turn } from "./server";
import { card } from "./walk";

export class Live {
  private readonly server = new Server();
  private readonly question = h("input", { type: "text", "aria-label": "Question", placeholder: "Ask the documents", required: true });
  private readonly first = h("select", { "aria-label": "System" });
  private readonly second = h("select", { "aria-label": "Compare with" });
  private readonly stop = h("button", { type: "button", hidden: true, click: () => this.asking?.abort() }, "Stop");
  private readonly documents = h("ul", { class: "documents", "aria-label": "Documents" });
  private readonly files = h("input", { type: "file", multiple: true, "aria-label": "Add documents", change: () => void this.upload() });
  private readonly uploads = h("ul", { class: "uploads", "aria-live": "polite" });
  private readonly trouble = h("p", { class: "trouble", role: "alert" });
  private readonly results = h("div", { class: "results" });
  private readonly graph = h("div");
  private readonly name = h("h1", {}, "hwdag");
  private readonly size = h("p", { class: "size" });
  private readonly drawing = h("button", { type: "button", hidden: true, click: () => void this.show() }, "Show the graph");
  private readonly renewal = h("button", { type: "button", hidden: true, click: () => this.begin() }, "New conversation");
  private asking: AbortController | null = null;
  private answered: Result[] = [];
  private readonly turns = new Map<string, Turn[]>();
  private readonly greeting = h("section", { class: "greeting", "aria-label": "Greeting" });

  constructor(root: HTMLElement) {
    const ask = h(
      "form",
      { class: "ask", "aria-label": "Ask", submit: (event) => (event.preventDefault(), void this.ask()) },
      this.question,
      h("button", { type: "submit" }, "Ask"),
      this.stop,
      this.renewal,
      h("details", { class: "ways" }, h("summary", {}, "Ways to search"), this.first, this.second),
    );
    const drop = h("section", { class: "holdings", "aria-label": "Documents" }, h("label", {}, "Add documents ", this.files), this.uploads);
    drop.append(h("details", {}, h("summary", {}, "Documents in the index"), this.documents), this.drawing);
    root.replaceChildren(h("main", { class: "live" }, h("header", { class: "index" }, this.name, this.size), ask, this.trouble, this.greeting, this.results, drop, this.graph));
    void this.refresh();
  }

  /** What the server has; asks for a token where it wants one. */
  private async refresh(): Promise<void> {
    try {
      this.fill(await this.server.state());
    } catch (error) {
      this.complain(error);
      if (this.server.wantsToken) this.trouble.append(this.tokenForm());
    }
  }

  private fill(state: State): void {
    this.trouble.replaceChildren();
    this.name.replaceChildren(state.name || "hwdag");
    const count = state.documents.length;
    this.size.replaceChildren(`${count} ${count === 1 ? "document" : "documents"}, ${state.characters.toLocaleString("en")} characters`);
    this.drawing.hidden = !state.has_graph || count === 0;
    this.greet(state);
    const options = () => state.systems.map((name) => h("option", {}, name));
    if (this.first.options.length === 0) {
      this.first.replaceChildren(...options());
      this.second.replaceChildren(h("option", { value: "" }, "compare with …"), ...options());
    }
    this.files.disabled = state.read_only;
    this.files.accept = state.suffixes.join(",");
    this.documents.replaceChildren(
      ...state.documents.map(({ id, title }) =>
        h(
          "li",
          {},
          title && title !== id ? `${title} (${id}) ` : `${id} `,
          !state.read_only && h("button", { type: "button", "aria-label": `Delete ${id}`, click: () => void this.remove(id) }, "Delete"),
        ),
      ),
    );
  }

  /** What to do with an empty index, or what one may ask a loaded one. */
  private greet(state: State): void {
    const ask = (question: string) => {
      this.question.value = question;
      void this.ask();
    };
    const said =
      state.documents.length === 0
        ? [h("p", {}, state.read_only ? "There is no document yet." : "There is no document yet. Add some below (PDF, Word, Markdown, ...), then ask.")]
        : [h("p", {}, "Ask about the documents, for example:"), ...state.questions.map((one) => h("button", { type: "button", click: () => ask(one) }, one))];
    this.greeting.replaceChildren(...said);
  }

  /** Forget what was asked before. */
  private begin(): void {
    this.asking?.abort();
    this.turns.clear();
    this.answered = [];
    this.results.replaceChildren();
    this.graph.replaceChildren();
    this.greeting.hidden = false;
    this.renewal.hidden = true;
    this.question.focus();
  }

  private tokenForm(): HTMLElement {
    const typed = h("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
    const submit = (event: Event) => {
      event.preventDefault();
      this.server.useToken(typed.value);
      void this.refresh();
    };
    return h("form", { submit }, typed, h("button", { type: "submit" }, "Use this token"));
  }

  private async ask(): Promise<void> {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const names = [this.first.value, this.second.value].filter(Boolean);
    this.trouble.replaceChildren();
    this.stop.hidden = false;
    this.greeting.hidden = true;
    this.renewal.hidden = false;
    const shown = (this.answered = names.map((name) => new Result(name, names.length > 1)));
    const question = this.question.value;
    for (const one of this.results.children) (one as HTMLDetailsElement).open = false;
    const answers = h("div", { class: names.length > 1 ? "two" : "one" }, ...shown.map(({ element }) => element));
    this.results.prepend(h("details", { class: "turn", open: true }, h("summary", {}, h("h2", {}, question)), answers));
    await Promise.all(shown.map((result) => result.run(this.server, question, this.turns.get(result.name) ?? [], asking.signal)));
    for (const { name, found } of shown) if (found) this.turns.set(name, [...(this.turns.get(name) ?? []), [question, found.answer]]);
    if (this.asking !== asking) return;
    this.stop.hidden = true;
    this.question.select();
  }

  private async upload(): Promise<void> {
    const chosen = [...(this.files.files ?? [])];
    this.files.value = "";
    for (const file of chosen) {
      const bar = h("progress", { max: 1, "aria-label": `Progress of ${file.name}` });
      const said = h("span");
      this.uploads.append(h("li", {}, file.name, " ", bar, " ", said));
      try {
        await this.server.upload(file, (stage, done, total) => {
          said.replaceChildren(stage);
          if (total > 0) bar.value = done / total;
          else bar.removeAttribute("value");
        });
        said.replaceChildren("done");
        bar.value = 1;
      } catch (error) {
        bar.remove();
        said.replaceChildren(String(error instanceof Error ? error.message : error));
      }
    }
    await this.refresh();
  }

  private async remove(id: string): Promise<void> {
    if (!confirm(`Delete ${id} from the index? The document and all that was made of it are removed for good.`)) return;
    try {
      await this.server.remove(id);
    } catch (error) {
      this.complain(error);
      return;
    }
    await this.refresh();
  }

  private async show(): Promise<void> {
    try {
      // why the answer too: its walk is replayed on the graph
      const answer = this.answered[0]?.found;
      mountGraph(this.graph, load({ ...(await this.server.graph()), title: "The graph", version: "", ...(answer && { answer }) }));
      this.graph.scrollIntoView();
    } catch (error) {
      this.complain(error);
    }
  }

  private complain(error: unknown): void {
    this.trouble.replaceChildren(error instanceof Error ? error.message : String(error));
  }
}

/** The walk of one system as it grows, and then the whole page of its answer. */
class Result {
  readonly element: HTMLElement;
  private readonly steps = h("ol", { class: "steps" });
  private readonly answer = h("p", { class: "answer", "aria-live": "polite" });
  private readonly body = h("div", { class: "growing" }, this.answer, this.steps);
  private readonly status = h("p", { class: "stop", role: "status" }, "reading…");
  private most = Number.EPSILON;
  found: Given["answer"];

  /** Several systems that answer one question have their names as headings. */
  constructor(readonly name: string, isNamed: boolean) {
    this.element = h("section", { class: "result", "aria-label": name }, isNamed && h("h3", {}, name), this.status, this.body);
  }

  async run(server: Server, question: string, history: Turn[], signal: AbortSignal): Promise<void> {
    try {
      for await (const { event, data } of server.ask(question, this.name, history, signal)) {
        if (event === "step") this.step(data as GivenStep);
        else if (event === "walk") this.status.replaceChildren("answering…");
        else if (event === "piece") this.answer.append((data as { text: string }).text);
        else if (event === "error") throw new Error((data as { message: string }).message);
        else if (event === "answer") {
          this.status.replaceChildren();
          this.found = (data as Given).answer;
          mount(this.body, load({ ...(data as Given), title: question, version: "" }), true);
        }
      }
      if (!this.found) throw new Error(BROKEN);
    } catch (error) {
      this.status.replaceChildren(signal.aborted ? "stopped" : error instanceof Error ? error.message : String(error));
    }
  }

  private step(step: GivenStep): void {
    const shown = { ...step, document: -1, spans: [], runners_up: [] };
    this.most = Math.max(this.most, step.attention + step.similarity + step.reference);
    const page = { documents: [], answer: null } as unknown as Page;
    this.steps.append(h("li", {}, h("div", { class: "card" }, ...card(page, shown, this.most))));
  }
}
