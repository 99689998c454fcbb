// The documents, with what was read and what the answer attended to marked at the exact characters.

import type { Page, Span } from "./data";
import { h, onActivate, percent, reveal } from "./dom";
import { formatted } from "./formatted";
import type { Selected, Selection } from "./selection";

interface Marked {
  span: Span;
  selection: Selection;
  /** Share of the answer's attention; 0 for what was only read. */
  weight: number;
  label: string;
}

/** A sentence that takes this share of the attention, or more, has the full colour. */
const HOTTEST = 0.4;

export class Sources {
  readonly element: HTMLElement;
  private readonly marked: Marked[] = [];
  private readonly text = h("div", { class: "text", tabindex: 0, role: "document" });
  private readonly notes = h("div", { class: "notes" });
  private readonly choice: HTMLSelectElement;
  private shown = -1;

  constructor(
    private readonly page: Page,
    private readonly selected: Selected,
    heading: "h2" | "h3" = "h2",
  ) {
    page.walk?.steps.forEach((step, i) => {
      for (const span of step.spans)
        this.marked.push({
          span,
          selection: { kind: "step", step: i },
          weight: 0,
          label: `read as number ${step.position}`,
        });
    });
    page.answer?.citations.forEach((citation, i) => {
      this.marked.push({
        span: citation.span,
        selection: { kind: "citation", citation: i },
        weight: citation.weight,
        label: `${i < page.answer!.cited ? `citation ${i + 1}, ` : ""}${percent(citation.weight)} of what the answer rests on`,
      });
    });
    this.choice = h("select", { "aria-label": "Document", change: () => this.show(this.choice.selectedIndex) });
    for (const source of page.documents) this.choice.append(h("option", {}, source.title || source.id));
    this.element = h(
      "section",
      { class: "sources", "aria-label": "Source documents" },
      h("header", {}, h(heading, {}, "Source"), this.choice),
      page.answer && h("p", { class: "scale" }, "how much the answer rests on it: ", h("span", {}, "little"), h("span", {}, "much")),
      this.notes,
      this.text,
    );
    if (page.graph) this.text.addEventListener("click", (event) => this.choose(event));
    if (page.documents.length > 0) this.show(this.strongest()?.span[0] ?? this.marked[0]?.span[0] ?? 0);
    selected.listen((selection, from) => this.follow(selection, from));
  }

  /** Scroll the text, and not the page, to the strongest citation. Call it once the element is in the page. */
  start(): void {
    const strongest = this.strongest();
    const mark = strongest && this.text.querySelector(`mark[data-keys~="${key(strongest.selection)}"]`);
    if (!mark) return;
    const above = mark.getBoundingClientRect().top - this.text.getBoundingClientRect().top;
    this.text.scrollTop += above - this.text.clientHeight / 3;
  }

  private strongest(): Marked | undefined {
    const cited = this.page.answer?.cited ?? 0;
    const citations = this.marked.filter(({ selection }) => selection.kind === "citation" && selection.citation < cited);
    return citations.reduce<Marked | undefined>((best, one) => (best && best.weight >= one.weight ? best : one), undefined);
  }

  private show(index: number, extra: Marked[] = []): void {
    const source = this.page.documents[index];
    if (!source) return;
    this.shown = index;
    this.choice.selectedIndex = index;
    this.notes.replaceChildren(...source.notes.map((note) => h("p", { class: "note" }, note)));
    const here = [...this.marked, ...extra].filter(({ span }) => span[0] === index);
    const cuts = new Set([0, source.text.length, ...source.pages]);
    for (const { span } of here) cuts.add(span[1]).add(span[2]);
    const at = [...cuts].sort((a, b) => a - b);
    let [next, page] = [0, 0];
    const shown = (from: number, to: number): Node[] => {
      const parts: Node[] = [];
      for (let start = from; start < to; ) {
        while (at[next]! <= start) next++;
        const end = Math.min(to, at[next]!);
        for (; page < source.pages.length && source.pages[page]! <= start; page++)
          parts.push(h("span", { class: "page-number" }, `page ${page + 1}`));
        const over = here.filter(({ span }) => span[1] <= start && end <= span[2]);
        const piece = source.text.slice(start, end);
        parts.push(over.length > 0 && piece.trim() ? this.mark(piece, over) : document.createTextNode(piece));
        start = end;
      }
      return parts;
    };
    this.text.replaceChildren(...formatted(source.text, shown));
  }

  /** A click on a text selects the leaf that it is in. */
  private choose(event: MouseEvent): void {
    if (event.target instanceof HTMLElement && event.target.closest("mark")) return;
    const at = offsetAt(this.text, event);
    const node = this.page.graph!.nodes.findIndex(
      ({ level, spans }) => level === 1 && spans.some(([document, start, end]) => document === this.shown && start <= at && at < end),
    );
    if (node >= 0) this.selected.select({ kind: "node", node }, this);
  }

  private mark(piece: string, over: Marked[]): HTMLElement {
    const weight = Math.max(...over.map((one) => one.weight));
    const isCited = over.some(({ selection }) => selection.kind === "citation" && selection.citation < this.page.answer!.cited);
    const mark = h(
      "mark",
      {
        tabindex: 0,
        role: "button",
        title: over.map((one) => one.label).join("; "),
        class: isCited ? "cited" : weight > 0 ? "attended" : "read",
        "data-keys": over.map((one) => key(one.selection)).join(" "),
      },
      piece,
    );
    mark.style.setProperty("--heat", String(weight > 0 ? Math.min(0.9, 0.06 + weight / HOTTEST) : 0));
    const target = over.reduce((best, one) => (one.weight > best.weight ? one : best));
    onActivate(mark, () => this.selected.select(target.selection, this));
    return mark;
  }

  private follow(selection: Selection | null, from: object | null): void {
    const spans = selection ? spansOf(this.page, selection) : [];
    const first = spans[0];
    if (first && selection?.kind === "node")
      this.show(
        first[0],
        spans.map((span) => ({ span, selection, weight: 0, label: "the selected node" })),
      );
    else if (first && first[0] !== this.shown) this.show(first[0]);
    let found: Element | null = null;
    for (const mark of this.text.querySelectorAll("mark")) {
      const keys = mark.dataset.keys?.split(" ") ?? [];
      const is = selection !== null && keys.includes(key(selection));
      mark.classList.toggle("selected", is);
      if (is) found ??= mark;
    }
    // why not: the graph that a replay is watched on would scroll away
    const isReplayed = selection?.kind === "step" && selection.isReplayed;
    if (found && from !== this && !isReplayed) reveal(found);
  }
}

/** How many characters of the document stand before a click; -1 where it hit none. */
function offsetAt(element: HTMLElement, event: MouseEvent): number {
  const hit = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  if (!hit || !element.contains(hit.offsetNode)) return -1;
  let before = hit.offset;
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (texts.nextNode() && texts.currentNode !== hit.offsetNode)
    if (!texts.currentNode.parentElement!.closest(".page-number")) before += texts.currentNode.textContent!.length;
  return before;
}

function key(selection: Selection): string {
  switch (selection.kind) {
    case "step":
      return `step-${selection.step}`;
    case "citation":
      return `citation-${selection.citation}`;
    case "node":
      return `node-${selection.node}`;
  }
}

export function spansOf(page: Page, selection: Selection): Span[] {
  switch (selection.kind) {
    case "step":
      return page.walk?.steps[selection.step]?.spans ?? [];
    case "citation": {
      const citation = page.answer?.citations[selection.citation];
      return citation ? [citation.span] : [];
    }
    case "node":
      return page.graph?.nodes[selection.node]?.spans ?? [];
  }
}
