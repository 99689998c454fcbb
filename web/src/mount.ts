import { AnswerView } from "./answer";
import type { Page } from "./data";
import { h } from "./dom";
import { GraphView } from "./graph";
import { Selected } from "./selection";
import { Sources } from "./sources";
import { WalkView } from "./walk";

/** Draw a page into an element; the same for a file, the live app and a notebook. Returns what is selected in it. */
export function mount(root: HTMLElement, page: Page): Selected {
  const selected = new Selected();
  const left = h("div", { class: "column" });
  const right = h("div", { class: "column" });
  if (page.walk) left.append(new AnswerView(page, selected).element, new WalkView(page, selected).element);
  else left.append(h("h1", {}, page.title));
  const graph = page.graph ? new GraphView(page, selected) : null;
  if (graph) (page.walk ? right : left).append(graph.element);
  if (page.documents.length > 0) right.append(new Sources(page, selected).element);
  root.replaceChildren(h("div", { class: page.walk ? "views" : "views wide" }, left, right));
  const listening = (event: KeyboardEvent) => {
    if (!root.isConnected) removeEventListener("keydown", listening);
    else if (event.key === "Escape") selected.select(null);
  };
  addEventListener("keydown", listening);
  graph?.start();
  return selected;
}
