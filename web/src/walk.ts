// The walk as a timeline: what was read when, and why it was next.

import type { Candidate, Page, Step } from "./data";
import { h, onActivate, percent, reveal } from "./dom";
import { plain } from "./formatted";
import { overlap } from "./load";
import type { Selected } from "./selection";

const PARTS = ["attention", "similarity", "reference"] as const;

export class WalkView {
  readonly element: HTMLElement;

  constructor(page: Page, selected: Selected, heading: "h2" | "h3" = "h2") {
    const walk = page.walk!;
    const most = Math.max(...[...walk.steps, ...walk.unread].map(score), Number.EPSILON);
    const list = h("ol", { class: "steps" });
    for (const [i, step] of walk.steps.entries()) {
      const head = h("div", { class: "card", tabindex: 0, role: "button" }, ...card(page, step, most));
      onActivate(head, () => selected.select({ kind: "step", step: i }, this));
      list.append(h("li", {}, head, ...passedOver(page, step, most)));
    }
    const unread = h("ol", { class: "steps unread" });
    for (const candidate of walk.unread) unread.append(h("li", {}, h("div", { class: "card" }, ...card(page, candidate, most))));
    this.element = h(
      "section",
      { class: "walk", "aria-label": "Walk" },
      h(heading, {}, "The walk"),
      h("p", { class: "legend" }, ...PARTS.map((part) => h("span", { class: part }, part))),
      list,
      h("p", { class: "stop" }, `${walk.steps.length} ${walk.steps.length === 1 ? "node" : "nodes"}, ${walk.tokens} tokens; ${walk.why}`),
      ...walk.notes.map((note) => h("p", { class: "note" }, note)),
      walk.unread.length > 0 &&
        h("details", {}, h("summary", {}, `${walk.unread.length} candidates that were not read`), unread),
    );
    selected.listen((selection, from) => {
      const step =
        selection?.kind === "step"
          ? selection.step
          : selection?.kind === "citation"
            ? page.answer?.citations[selection.citation]?.step
            : selection?.kind === "node"
              ? walk.steps.findIndex((one) => one.id === page.graph?.nodes[selection.node]?.id)
              : -1;
      Array.from(list.children).forEach((item, i) => {
        item.classList.toggle("selected", i === step);
        item.firstElementChild!.setAttribute("aria-pressed", String(i === step));
        if (i === step && from !== this && selection?.kind === "step" && !selection.isReplayed) reveal(item);
      });
    });
  }
}

function score(candidate: Candidate): number {
  return candidate.attention + candidate.similarity + candidate.reference;
}

/** What could have been read instead, with the scores of that moment. */
function passedOver(page: Page, step: Step, most: number): Node[] {
  if (step.runners_up.length === 0) return [];
  const list = h("ol", { class: "steps unread" });
  for (const one of step.runners_up) list.append(h("li", {}, h("div", { class: "card" }, ...card(page, one, most))));
  return [h("details", {}, h("summary", {}, `runners-up: ${step.runners_up.length}`), list)];
}

/** How much of the answer's attention went to what a step has read. */
function attended(page: Page, step: Step): number {
  const inside = page.answer?.citations.filter(({ span }) => step.spans.some((one) => overlap(one, span)));
  return inside?.reduce((sum, { weight }) => sum + weight, 0) ?? 0;
}

export function card(page: Page, candidate: Candidate | Step, most: number): Node[] {
  const bars = h("span", {
    class: "bars",
    role: "img",
    "aria-label": PARTS.map((part) => `${part} ${candidate[part].toFixed(3)}`).join(", "),
    title: PARTS.map((part) => `${part} ${candidate[part].toFixed(4)}`).join("\n"),
  });
  for (const part of PARTS) {
    const bar = h("span", { class: part });
    bar.style.width = `${(100 * Math.max(0, candidate[part])) / most}%`;
    bars.append(bar);
  }
  const source = page.documents[candidate.document];
  const facts = [`level ${candidate.level}`, candidate.origin, `${candidate.tokens} tokens`, source?.title || candidate.document_id];
  const read = "position" in candidate ? candidate : null;
  if (read?.initial) facts.push("read first");
  if (read && page.answer) facts.push(`${percent(attended(page, read))} of the answer's attention`);
  return [
    h("span", { class: "position" }, read ? String(read.position) : ""),
    h("span", { class: "node-text" }, ...plain(candidate.text)),
    bars,
    h("span", { class: "facts" }, facts.filter(Boolean).join(" · ")),
    ...(read && read.p_yes !== null
      ? [h("span", { class: "p-yes", title: "probability that what was read is enough" }, `enough? ${percent(read.p_yes)}`)]
      : []),
  ];
}
