// The answer, whose words link to citations, how sure it is, and the citations.

import type { Answer, Page } from "./data";
import { h, onActivate, percent, reveal } from "./dom";
import { formatted, plain } from "./formatted";
import type { Selected } from "./selection";

export class AnswerView {
  readonly element: HTMLElement;

  /** The question is its heading, unless the place where it appears has one. */
  constructor(page: Page, selected: Selected, isHeaded = true) {
    const answer = page.answer;
    // why 0: nothing was found, so the answer rests on nothing that was read
    const cited = answer?.found === false && !answer.isNumbered ? 0 : (answer?.cited ?? 0);
    const said = h("div", { class: "answer" });
    const list = h("ol", { class: "citations" });
    const others = h("ol", { class: "citations others" });
    const said_by: [HTMLElement, number][] = [];
    this.element = h(
      "section",
      { "aria-label": "Answer" },
      isHeaded && h("h1", {}, page.walk?.question ?? page.title),
      answer && judged(answer),
      answer && said,
      ...(answer?.notes.map((note) => h("p", { class: "note" }, note)) ?? []),
      cited > 0 && h(isHeaded ? "h2" : "h3", {}, "It rests on"),
      list,
      answer &&
        answer.citations.length > cited &&
        h("details", {}, h("summary", {}, `The ${cited > 0 ? "other " : ""}${answer.citations.length - cited} sentences that were read`), others),
      answer && h("p", { class: "cost" }, answer.cost),
    );
    if (!answer) return;
    const link = (start: number, end: number, citation: number) => {
      const word = h("button", { class: "word", title: `citation ${citation + 1}` }, answer.text.slice(start, end));
      word.addEventListener("click", () => selected.select({ kind: "citation", citation }, this));
      said_by.push([word, citation]);
      return word;
    };
    said.append(...formatted(answer.text, (start, end) => parts(answer, start, end, link)));
    answer.citations.forEach((citation, i) => {
      const source = page.documents[citation.span[0]];
      const item = h(
        "li",
        { tabindex: 0, role: "button" },
        answer.isNumbered && i < cited && h("span", { class: "number" }, `[${i + 1}]`),
        h("span", { class: "weight", title: "how much the answer rests on it" }, percent(citation.weight)),
        h("span", { class: "quote" }, ...plain(citation.text)),
        h("span", { class: "place" }, [source?.title || source?.id, pageOf(page, i)].filter(Boolean).join(", ")),
      );
      item.style.setProperty("--share", `${100 * citation.weight}%`);
      onActivate(item, () => selected.select({ kind: "citation", citation: i }, this));
      (i < cited ? list : others).append(item);
    });
    const items = [...list.children, ...others.children];
    selected.listen((selection, from) => {
      for (const [word, citation] of said_by)
        word.classList.toggle("selected", selection?.kind === "citation" && selection.citation === citation);
      items.forEach((item, i) => {
        const is =
          (selection?.kind === "citation" && selection.citation === i) ||
          (selection?.kind === "step" && answer.citations[i]?.step === selection.step);
        item.classList.toggle("selected", is);
        item.setAttribute("aria-pressed", String(is));
        if (is && selection?.kind === "citation" && from !== this) {
          if (i >= cited) item.closest("details")!.open = true;
          reveal(item);
        }
      });
    });
  }
}

/** Whether the documents seem to hold an answer, and how likely this one is right. */
function judged({ found, confidence }: Answer): HTMLElement | null {
  if (found === false) return h("p", { class: "judged missing" }, "Not found in the documents");
  return confidence === null ? null : h("p", { class: "judged" }, `${percent(confidence)} likely to be right`);
}

/** The characters [start, end) of an answer, with its links. */
function parts(answer: Answer, start: number, end: number, link: (start: number, end: number, citation: number) => Node): Node[] {
  const found: Node[] = [];
  const text = (to: number) => at < to && found.push(document.createTextNode(answer.text.slice(at, to)));
  let at = start;
  for (const [from, to, citation] of answer.words) {
    const [first, last] = [Math.max(at, from), Math.min(end, to)];
    if (first >= last) continue;
    text(first);
    found.push(link(first, last, citation));
    at = last;
  }
  text(end);
  return found;
}

function pageOf(page: Page, citation: number): string {
  const [index, start] = page.answer!.citations[citation]!.span;
  const pages = page.documents[index]?.pages ?? [];
  const number = pages.filter((first) => first <= start).length;
  return number > 0 ? `page ${number}` : "";
}
