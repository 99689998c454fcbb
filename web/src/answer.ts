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
    this.element = h(
      "section",
      { "aria-label": "Answer" },
      h("h1", {}, page.walk?.question ?? page.title),
      answer && said,
      answer && h("h2", {}, "It rests on"),
      list,
      answer && h("p", { class: "cost" }, answer.cost),
    );
    if (!answer) return;
    for (const [text, citation] of answer.words) {
      if (citation === null) said.append(text);
      else {
        const word = h("button", { class: "word", title: `citation ${citation + 1}` }, text);
        word.addEventListener("click", () => selected.select({ kind: "citation", citation }, this));
        said.append(word);
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
      list.append(item);
    });
    selected.listen((selection, from) => {
      Array.from(list.children).forEach((item, i) => {
        const is =
          (selection?.kind === "citation" && selection.citation === i) ||
          (selection?.kind === "step" && answer.citations[i]?.step === selection.step);
        item.classList.toggle("selected", is);
        item.setAttribute("aria-pressed", String(is));
        if (is && selection?.kind === "citation" && from !== this) reveal(item);
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
