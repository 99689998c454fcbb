// The graph: levels as layers, edges weighted by attention. Positions are computed in Python.

import Graph from "graphology";
import Sigma from "sigma";
import { EdgeLineProgram, EdgeRectangleProgram, NodePointProgram } from "sigma/rendering";
import type { NodeDisplayData, PartialButFor } from "sigma/types";

import type { Page } from "./data";
import { h, percent } from "./dom";
import type { Selected } from "./selection";

/** Nodes that are drawn at once, unless a document is chosen: more are seen by opening a part. */
const MOST_SHOWN = 12_000;
const HIDDEN_BELOW = 0.05;
/** Edges as thick as they weigh, the heaviest ones; the others are thin lines, which are ten times faster to draw. */
const MOST_THICK = 2_000;
const MOST_FOUND = 50;
const STEP_SECONDS = 0.7;
/** Colours of edges, from the lightest to the heaviest. */
const SHADES = 10;
/** Of all leaves, as a multiple of the distance between two levels. */
const WIDTH = 1.8;

export class GraphView {
  readonly element: HTMLElement;
  private readonly canvas = h("div", { class: "canvas", "aria-hidden": true });
  private readonly details = h("div", { class: "details", "aria-live": "polite" });
  private readonly found = h("ul", { class: "found" });
  private readonly drawn = h("p", { class: "facts", role: "status" });
  private graph = new Graph();
  private readonly levels: HTMLInputElement;
  private readonly weight: HTMLInputElement;
  private readonly level = h("output");
  private readonly least = h("output");
  private readonly chosen: HTMLSelectElement;
  private readonly children: number[][];
  private readonly parents: number[][];
  private readonly opened = new Set<number>();
  private readonly height: number;
  private sigma: Sigma | null = null;
  private walked: string[] = [];
  private current: number | null = null;
  private near = new Set<string>();
  private pointed: string | null = null;

  constructor(
    private readonly page: Page,
    private readonly selected: Selected,
  ) {
    const { nodes, edges } = page.graph!;
    this.children = nodes.map(() => []);
    this.parents = nodes.map(() => []);
    edges.forEach(([from, to], i) => {
      this.children[from]!.push(i);
      this.parents[to]!.push(i);
    });
    this.height = nodes.reduce((top, node) => Math.max(top, node.level), 1);
    this.levels = h("input", { type: "range", min: 1, max: this.height, step: 1, input: () => this.draw() });
    this.levels.value = String(this.lowest());
    this.weight = h("input", { type: "range", min: 0, max: 0.5, step: 0.01, input: () => this.draw() });
    this.weight.value = String(HIDDEN_BELOW);
    this.chosen = h("select", { "aria-label": "Document", change: () => this.draw() }, h("option", {}, "all documents"));
    for (const source of page.documents) this.chosen.append(h("option", {}, source.title || source.id));
    const search = h("input", { type: "search", placeholder: "Find in nodes", "aria-label": "Find in nodes" });
    search.addEventListener("input", () => this.find(search.value));
    this.element = h(
      "section",
      { class: "graph", "aria-label": "Graph" },
      h(
        "form",
        { class: "controls", submit: (event) => event.preventDefault() },
        search,
        this.chosen,
        h("label", {}, "from level ", this.levels, this.level),
        h("label", {}, "edges from ", this.weight, this.least),
        page.walk && page.walk.steps.length > 0
          ? h("button", { type: "button", click: () => void this.replay() }, "Replay the walk")
          : null,
      ),
      this.found,
      this.drawn,
      this.canvas,
      this.details,
    );
    selected.listen((selection) => {
      const node =
        selection?.kind === "node"
          ? selection.node
          : selection?.kind === "step"
            ? nodes.findIndex((one) => one.id === page.walk?.steps[selection.step]?.id)
            : -1;
      this.describe(node >= 0 ? node : null);
    });
  }

  /** Needs a size on the screen, so it comes after the element is in the page. */
  start(): void {
    this.draw();
    this.sigma = new Sigma(this.graph, this.canvas, {
      renderEdgeLabels: false,
      labelRenderedSizeThreshold: 9,
      labelGridCellSize: 300,
      labelColor: { color: getComputedStyle(this.canvas).color },
      // points and lines are what a machine without a graphics card draws by the ten thousand
      defaultNodeType: "point",
      nodeProgramClasses: { point: NodePointProgram },
      defaultEdgeType: "thin",
      edgeProgramClasses: { thin: EdgeLineProgram, thick: EdgeRectangleProgram },
      hideEdgesOnMove: this.graph.size > 50_000,
      allowInvalidContainer: true,
      zIndex: true,
      defaultDrawNodeHover: (context, node) => this.drawMarked(context, node),
      nodeReducer: (node, data) => (this.near.has(node) ? { ...data, highlighted: true, zIndex: 1 } : data),
      edgeReducer: (edge, data) =>
        this.current !== null && this.graph.hasExtremity(edge, String(this.current)) ? { ...data, color: colours().read } : data,
    });
    this.sigma.on("clickNode", ({ node }) => this.selected.select({ kind: "node", node: Number(node) }, this));
    this.sigma.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
      preventSigmaDefault();
      this.open(Number(node));
    });
    this.sigma.on("enterNode", ({ node }) => (this.pointed = node));
    this.sigma.on("leaveNode", () => (this.pointed = null));
    this.sigma.on("clickStage", () => this.selected.select(null, this));
  }

  /** The lowest level from which no more nodes are drawn than one can look at. */
  private lowest(): number {
    const counts = new Map<number, number>();
    for (const { level } of this.page.graph!.nodes) counts.set(level, (counts.get(level) ?? 0) + 1);
    let shown = 0;
    for (let level = this.height; level >= 1; level--) {
      shown += counts.get(level) ?? 0;
      if (shown > MOST_SHOWN) return Math.min(this.height, level + 1);
    }
    return 1;
  }

  private draw(): void {
    const { nodes, edges } = this.page.graph!;
    const [least, from, only] = [Number(this.weight.value), Number(this.levels.value), this.chosen.selectedIndex - 1];
    const { read, point, leaf, edge } = colours();
    const shades = Array.from({ length: SHADES + 1 }, (_, i) => mixed(edge, point, i / SHADES));
    this.level.value = String(from);
    this.least.value = percent(least);
    const walked = new Set(this.page.walk?.steps.map(({ id }) => id));
    // why anew: sigma hears of every change to a graph that it has, one by one
    const graph = new Graph({ type: "directed", multi: true });
    nodes.forEach((node, i) => {
      const isShown = only >= 0 ? node.document === only && node.level >= from : node.level >= from || this.opened.has(i);
      if (!isShown) return;
      const isRead = walked.has(node.id);
      graph.addNode(i, {
        x: node.x * WIDTH * Math.max(1, this.height - 1),
        y: node.level,
        size: 3 + 2 * (node.level - 1) + (isRead ? 3 : 0),
        label: node.text.length > 60 ? `${node.text.slice(0, 60)}…` : node.text,
        color: isRead ? read : node.level > 1 ? point : leaf,
      });
    });
    for (const [a, b, weight] of edges) {
      if (weight < least) break;
      if (graph.hasNode(a) && graph.hasNode(b))
        graph.addEdge(a, b, { type: graph.size < MOST_THICK ? "thick" : "thin", size: 0.5 + 4 * weight, color: shades[Math.round(SHADES * weight)] });
    }
    this.graph = graph;
    this.drawn.replaceChildren(`${graph.order} of ${nodes.length} nodes, ${graph.size} edges`);
    this.mark();
    this.sigma?.setGraph(graph);
  }

  /** Show what a node rests on, also below the lowest level that is drawn. */
  private open(node: number): void {
    const below = this.children[node]!.map((edge) => this.page.graph!.edges[edge]![1]);
    const isOpen = below.length > 0 && below.every((child) => this.opened.has(child));
    for (const child of below) isOpen ? this.opened.delete(child) : this.opened.add(child);
    this.opened.add(node);
    this.draw();
  }

  /** What stands out: the nodes of the walk so far, and the one that is selected. */
  private mark(): void {
    this.near = new Set(this.walked);
    if (this.current !== null && this.graph.hasNode(this.current)) this.near.add(String(this.current));
  }

  /** A ring around a node that stands out; the text of the one that is selected or pointed at above it. */
  private drawMarked(context: CanvasRenderingContext2D, node: PartialButFor<NodeDisplayData, "x" | "y" | "size" | "label"> & { key?: string }): void {
    const { paper, ink, accent } = colours();
    context.strokeStyle = accent;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(node.x, node.y, node.size + 3, 0, 2 * Math.PI);
    context.stroke();
    if (!node.label || (node.key !== String(this.current) && node.key !== this.pointed)) return;
    context.font = "14px system-ui, sans-serif";
    const room = this.canvas.clientWidth - 12;
    const wide = context.measureText(node.label).width;
    const label = wide > room ? `${node.label.slice(0, Math.floor((node.label.length * room) / wide) - 3)}…` : node.label;
    const [width, height] = [context.measureText(label).width + 12, 24];
    const left = Math.max(0, Math.min(node.x - 12, this.canvas.clientWidth - width));
    const top = Math.max(0, node.y - node.size - height - 6);
    context.fillStyle = paper;
    context.fillRect(left, top, width, height);
    context.lineWidth = 1;
    context.strokeRect(left, top, width, height);
    context.fillStyle = ink;
    context.fillText(label, left + 6, top + 17);
  }

  private find(text: string): void {
    const wanted = text.trim().toLocaleLowerCase();
    this.found.replaceChildren();
    if (!wanted) return;
    let count = 0;
    for (const [i, node] of this.page.graph!.nodes.entries()) {
      if (!node.text.toLocaleLowerCase().includes(wanted)) continue;
      if (++count > MOST_FOUND) break;
      this.found.append(
        h(
          "li",
          {},
          h("button", { type: "button", click: () => this.selected.select({ kind: "node", node: i }, this) }, `L${node.level} ${node.text}`),
        ),
      );
    }
    if (count === 0) this.found.append(h("li", {}, "nothing found"));
    if (count > MOST_FOUND) this.found.append(h("li", {}, `the first ${MOST_FOUND}`));
  }

  private describe(node: number | null): void {
    this.current = node;
    this.details.replaceChildren();
    if (node !== null) {
      const { nodes, edges } = this.page.graph!;
      const it = nodes[node]!;
      const links = (title: string, ends: [number, number][]) =>
        ends.length > 0 &&
        h(
          "div",
          {},
          h("h3", {}, title),
          h(
            "ul",
            {},
            ...ends
              .sort((a, b) => b[1] - a[1])
              .slice(0, 12)
              .map(([other, weight]) =>
                h(
                  "li",
                  {},
                  h(
                    "button",
                    { type: "button", click: () => this.selected.select({ kind: "node", node: other }, this) },
                    h("span", { class: "weight" }, percent(weight)),
                    ` ${nodes[other]!.text}`,
                  ),
                ),
              ),
          ),
        );
      const below = this.children[node]!.map((e): [number, number] => [edges[e]![1], edges[e]![2]]);
      const above = this.parents[node]!.map((e): [number, number] => [edges[e]![0], edges[e]![2]]);
      this.details.append(
        h("p", {}, it.text),
        h("p", { class: "facts" }, `level ${it.level} · ${it.origin} · ${it.tokens} tokens · ${this.page.documents[it.document]?.title || this.page.documents[it.document]?.id}`),
      );
      if (below.length > 0)
        this.details.append(h("button", { type: "button", click: () => this.open(node) }, "Expand or collapse in the graph"));
      for (const part of [links("Rests on", below), links("Cited by", above)]) if (part) this.details.append(part);
    }
    this.mark();
    this.sigma?.refresh({ skipIndexation: true });
  }

  private async replay(): Promise<void> {
    this.walked = [];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const [i, step] of this.page.walk!.steps.entries()) {
      const node = this.page.graph!.nodes.findIndex((one) => one.id === step.id);
      if (node < 0) continue;
      this.walked.push(String(node));
      if (!this.graph.hasNode(node)) {
        this.opened.add(node);
        this.draw();
      }
      this.selected.select({ kind: "step", step: i, isReplayed: true }, this);
      await new Promise((done) => setTimeout(done, still ? 0 : 1000 * STEP_SECONDS));
    }
  }
}

/** A colour between two of the form #rrggbb. */
function mixed(from: string, to: string, share: number): string {
  const parts = (colour: string) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const end = parts(to);
  return `#${parts(from)
    .map((part, i) => Math.round(part + share * (end[i]! - part)).toString(16).padStart(2, "0"))
    .join("")}`;
}

function colours(): Record<"read" | "point" | "leaf" | "edge" | "paper" | "ink" | "accent", string> {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    read: colour("--read"),
    point: colour("--point"),
    leaf: colour("--leaf"),
    edge: colour("--edge"),
    paper: colour("--paper"),
    ink: colour("--ink"),
    accent: colour("--accent"),
  };
}
