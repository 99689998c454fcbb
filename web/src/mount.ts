import { AnswerView } from "./answer";
import type { Page } from "./data";
import { h } from "./dom";
import { GraphView } from "./graph";
import { Selected } from "./selection";
import { Sources } from "./sources";
import { WalkView } from "./walk";

/**
 * Draw a page into an element; the same for a file, the live app and a notebook.
 * How the answer was found may be folded away.
 */
export function mount(root: HTMLElement, page: Page, isFolded = false): void {
  const selected = new Selected();
  const left = h("div", { class: "column" });
  const right = h("div", { class: "column" });
  if (page.walk) {
    const answer = new AnswerView(page, selected, !isFolded).element;
    const walk = new WalkView(page, selected, isFolded ? "h3" : "h2").element;
    const cost = answer.querySelector(".cost");
    if (isFolded && cost) walk.append(cost);
    left.append(answer, isFolded ? h("details", { class: "how" }, h("summary", {}, "How was this found?"), walk) : walk);
  }
  else left.append(h("h1", {}, page.title));
  const graph = page.graph ? new GraphView(page, selected) : null;
  if (graph) (page.walk ? right : left).append(graph.element);
  const sources = page.documents.length > 0 ? new Sources(page, selected, isFolded ? "h3" : "h2") : null;
  if (sources) right.append(sources.element);
  root.replaceChildren(h("div", { class: page.walk ? "views" : "views wide" }, left, right));
  const listening = (event: KeyboardEvent) => {
    if (!root.isConnected) removeEventListener("keydown", listening);
    else if (event.key === "Escape") selected.select(null);
  };
  addEventListener("keydown", listening);
  sources?.start();
  graph?.start();
}

/** Draw a graph with the documents, and a walk that is replayed on it. */
export function mountGraph(root: HTMLElement, page: Page): void {
  const selected = new Selected();
  const graph = new GraphView(page, selected);
  const sources = new Sources(page, selected);
  const views = h("div", { class: "views wide" }, h("div", { class: "column" }, graph.element), h("div", { class: "column" }, sources.element));
  root.replaceChildren(h("h2", {}, page.title), views);
  sources.start();
  graph.start();
}
