import type { Page } from "./data";
import { h } from "./dom";
import { Live } from "./live";
import { load, type Given } from "./load";
import { mount } from "./mount";
import type { Selection } from "./selection";

const data = document.getElementById("hwdag-data");
const root = document.getElementById("hwdag-page");
const live = document.getElementById("hwdag-live");
if (data?.textContent && root) {
  const page = load(JSON.parse(data.textContent) as Given);
  const main = h("main");
  root.replaceChildren(main, h("footer", {}, `hwdag ${page.version}`));
  const selected = mount(main, page);
  // why to any origin: the frame of a notebook has none that could be named
  if (parent !== window) selected.listen((one) => parent.postMessage({ hwdag: named(page, one) }, "*"));
}
if (live) new Live(live);

/** What is selected, in names that Python knows too. */
function named(page: Page, selection: Selection | null): { citation: number } | { node: string } | null {
  switch (selection?.kind) {
    case "citation":
      return { citation: selection.citation };
    case "step":
      return { node: page.walk!.steps[selection.step]!.id };
    case "node":
      return { node: page.graph!.nodes[selection.node]!.id };
    default:
      return null;
  }
}
