// The question, the answer whose words link to citations, and the citations.

import type { Page } from "./data";
import { h, onActivate, percent, reveal } from "./dom";
import type { Selected } from "./selection";

export class AnswerView {
  readonly element: HTMLElement;

  constructor(page: Page, selected: Selected) {
    const answer = page.answer;
    const said = h("p", { class: "answer" });
    const list = h("ol", { class: "citations" });
    const others = h("ol", { class: "citations others" });
    const said_by: [HTMLElement, number][] = [];
    this.element = h(
      "section",
      { "aria-label": "Answer" },
      h("h1", {}, page.walk?.question ?? page.title),
      answer && said,
      answer && answer.cited > 0 && h("h2", {}, "It rests on"),
      list,
      answer &&
        answer.citations.length > answer.cited &&
        h("details", {}, h("summary", {}, `The other ${answer.citations.length - answer.cited} sentences that were read`), others),
      answer && h("p", { class: "cost" }, answer.cost),
    );
    if (!answer) return;
    for (const [text, citation] of answer.words) {
      if (citation === null) said.append(text);
      else {
        const word = h("button", { class: "word", title: `citation ${citation + 1}` }, text);
        word.addEventListener("click", () => selected.select({ kind: "citation", citation }, this));
        said.append(word);
        said_by.push([word, citation]);
      }
    }
    answer.citations.forEach((citation, i) => {
      const source = page.documents[citation.span[0]];
      const item = h(
        "li",
        { tabindex: 0, role: "button" },
        h("span", { class: "weight" }, percent(citation.weight)),
        h("span", { class: "quote" }, citation.text),
        h("span", { class: "place" }, [source?.title || source?.id, pageOf(page, i)].filter(Boolean).join(", ")),
      );
      item.style.setProperty("--share", `${100 * citation.weight}%`);
      onActivate(item, () => selected.select({ kind: "citation", citation: i }, this));
      (i < answer.cited ? list : others).append(item);
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
          if (i >= answer.cited) item.closest("details")!.open = true;
          reveal(item);
        }
      });
    });
  }
}

function pageOf(page: Page, citation: number): string {
  const [index, start] = page.answer!.citations[citation]!.span;
  const pages = page.documents[index]?.pages ?? [];
  const number = pages.filter((first) => first <= start).length;
  return number > 0 ? `page ${number}` : "";
}
