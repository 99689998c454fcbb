"use strict";
const { nodes, edges } = JSON.parse(document.getElementById("data").textContent);
const svg = document.getElementById("graph");
const details = document.getElementById("details");
const find = document.getElementById("find");
const count = document.getElementById("count");
const SIZE = 1000;

function shape(name, attributes, parent) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}

function element(name, text, parent) {
  const made = document.createElement(name);
  made.textContent = text; // never as HTML: documents may hold anything
  return parent.appendChild(made);
}

const neighbors = nodes.map(() => []);
const weights = edges.map(([, , weight]) => weight);
const most = Math.max(...weights, 1e-9);
const lines = edges.map(([a, b, weight], i) => {
  neighbors[a].push([b, weight, i]);
  neighbors[b].push([a, weight, i]);
  return shape("line", {
    x1: nodes[a].x * SIZE, y1: nodes[a].y * SIZE, x2: nodes[b].x * SIZE, y2: nodes[b].y * SIZE,
    "stroke-width": Math.max(0.3, (2 * weight) / most),
  }, svg);
});
const radius = Math.max(4, Math.min(14, 200 / Math.sqrt(nodes.length + 1)));
const circles = nodes.map((node, i) => {
  const circle = shape("circle", {
    cx: node.x * SIZE, cy: node.y * SIZE, r: node.theme ? radius * 1.6 : radius,
    class: node.theme ? "theme" : "", tabindex: 0, role: "button",
  }, svg);
  shape("title", {}, circle).textContent = node.text.slice(0, 120);
  circle.addEventListener("click", () => choose(i));
  circle.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") choose(i);
  });
  return circle;
});

function list(title, indices, parent, label) {
  if (!indices.length) return;
  element("h3", title, parent);
  const items = element("ul", "", parent);
  for (const i of indices) {
    const button = element("button", label(i), element("li", "", items));
    button.addEventListener("click", () => choose(i));
  }
}

function choose(chosen) {
  const node = nodes[chosen];
  circles.forEach((circle, i) => circle.classList.toggle("chosen", i === chosen));
  const near = new Map(neighbors[chosen].map(([other, weight, line]) => [other, [weight, line]]));
  lines.forEach((line) => line.classList.remove("near"));
  for (const [, line] of near.values()) lines[line].classList.add("near");
  details.replaceChildren();
  element("h2", `${node.theme ? "Theme" : "Chunk"} of ${node.document}`, details);
  element("p", node.text, details);
  if (node.questions.length) {
    element("h3", "Utility questions", details);
    const items = element("ul", "", details);
    for (const question of node.questions) element("li", question, items);
  }
  const short = (i) => nodes[i].text.slice(0, 90);
  list("Summarizes", node.members, details, short);
  const nearest = [...near.keys()].sort((a, b) => near.get(b)[0] - near.get(a)[0]);
  list("Nearest", nearest, details, (i) => `${near.get(i)[0].toFixed(2)}  ${short(i)}`);
}

const words = nodes.map((node) => [node.text, ...node.questions].join("\n").toLowerCase());
find.addEventListener("input", () => {
  const wanted = find.value.trim().toLowerCase();
  const found = words.map((text) => text.includes(wanted));
  circles.forEach((circle, i) => circle.classList.toggle("faded", !found[i]));
  count.textContent = `${found.filter(Boolean).length} of ${nodes.length} nodes`;
});
count.textContent = `${nodes.length} nodes`;

let view = { x: -50, y: -50, size: SIZE + 100 };
function show() {
  svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.size} ${view.size}`);
}
show();

function place(event) {
  const point = new DOMPoint(event.clientX, event.clientY);
  return point.matrixTransform(svg.getScreenCTM().inverse());
}
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = place(event);
  const factor = Math.min(4, Math.max(0.02, view.size * Math.exp(event.deltaY / 600) / SIZE)) * SIZE / view.size;
  view = {
    x: at.x - (at.x - view.x) * factor,
    y: at.y - (at.y - view.y) * factor,
    size: view.size * factor,
  };
  show();
}, { passive: false });
let held = null;
svg.addEventListener("pointerdown", (event) => {
  if (event.target === svg) held = place(event);
});
svg.addEventListener("pointermove", (event) => {
  if (held === null) return;
  const at = place(event);
  view = { ...view, x: view.x + held.x - at.x, y: view.y + held.y - at.y };
  show();
});
for (const name of ["pointerup", "pointerleave"]) svg.addEventListener(name, () => { held = null; });
