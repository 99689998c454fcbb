import { h } from "./dom";
import { Live } from "./live";
import { load, type Given } from "./load";
import { mount } from "./mount";

const data = document.getElementById("hwdag-data");
const root = document.getElementById("hwdag-page");
const live = document.getElementById("hwdag-live");
if (data?.textContent && root) {
  const page = load(JSON.parse(data.textContent) as Given);
  const main = h("main");
  root.replaceChildren(main, h("footer", {}, `hwdag ${page.version}`));
  mount(main, page);
}
if (live) new Live(live);
