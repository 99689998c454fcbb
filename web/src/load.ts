// From the JSON that hwdag writes everywhere (command line, pages, server) to what the views show.

import type { Candidate, Citation, Graph, GraphNode, Page, SourceDocument, Span, Step } from "./data";

interface GivenNode {
  id: string;
  document_id: string;
  level: number;
  text: string;
  origin: string;
  tokens: number;
  spans: [number, number][];
}

interface GivenCandidate extends GivenNode {
  attention: number;
  similarity: number;
  reference: number;
}

export interface GivenStep extends GivenCandidate {
  position: number;
  initial: boolean;
  relevance: number | null;
  p_yes: number | null;
  runners_up?: GivenCandidate[];
}

interface GivenWalk {
  question: string;
  stop: string;
  notes: string[];
  context_tokens: number;
  steps: GivenStep[];
  unread: GivenStep[];
}

interface GivenAnswer {
  answer: string;
  found?: boolean | null;
  confidence?: number | null;
  notes?: string[];
  answered_by?: string | null;
  citations: { document_id: string; start: number; end: number; text: string; weight: number; node_id: string }[];
  attended?: [document_id: string, start: number, end: number, weight: number][];
  likelihood: number | null;
  tokens: number;
  tflops: number;
  seconds: number;
  walk: GivenWalk;
}

interface GivenGraph {
  document_id: string;
  nodes: GivenNode[];
  x: number[];
  edges: [number, number, number][];
}

export interface Given {
  title: string;
  version: string;
  documents: { id: string; title: string; text: string; pages?: number[]; notes?: string[] }[];
  answer?: GivenAnswer;
  walk?: GivenWalk;
  graphs?: GivenGraph[];
}

const WHY: Record<string, string> = {
  sufficient: "the model said that it has enough",
  budget: "no other node fits the token budget",
  exhausted: "every node was read",
};

export function load(given: Given): Page {
  const offsets = given.documents.map(({ text }) => utf16(text));
  const numbers = new Map(given.documents.map(({ id }, i) => [id, i]));
  const documents: SourceDocument[] = given.documents.map((one, i) => ({
    id: one.id,
    title: one.title,
    text: one.text,
    pages: (one.pages ?? []).map(offsets[i]!),
    notes: one.notes ?? [],
  }));

  const span = (document: number, start: number, end: number): Span => {
    const at = offsets[document]!;
    return at ? [document, at(start), at(end)] : [document, start, end];
  };
  const node = (one: GivenNode): GraphNode => {
    const document = numbers.get(one.document_id) ?? -1;
    return { ...one, document, spans: one.spans.map(([start, end]) => span(document, start, end)) };
  };
  const candidate = (one: GivenCandidate): Candidate => ({ ...one, ...node(one) });
  const step = (one: GivenStep): Step => ({ ...one, ...candidate(one), runners_up: (one.runners_up ?? []).map(candidate) });

  const walked = given.answer?.walk ?? given.walk;
  const steps = walked?.steps.map(step) ?? [];
  const citations: Citation[] = (given.answer?.citations ?? []).map((one) => ({
    span: span(numbers.get(one.document_id) ?? -1, one.start, one.end),
    text: one.text,
    weight: one.weight,
    step: steps.findIndex(({ id }) => id === one.node_id),
  }));
  const cited = citations.length;
  for (const [id, start, end, weight] of given.answer?.attended?.slice(cited) ?? []) {
    const place = span(numbers.get(id) ?? -1, start, end);
    citations.push({
      span: place,
      text: documents[place[0]]?.text.slice(place[1], place[2]) ?? "",
      weight,
      step: steps.findIndex(({ spans }) => spans.some((one) => overlap(one, place))),
    });
  }
  return {
    title: given.title,
    version: given.version,
    documents,
    walk: walked
      ? {
          question: walked.question,
          stop: walked.stop,
          why: WHY[walked.stop] ?? walked.stop,
          notes: walked.notes,
          tokens: walked.context_tokens,
          steps,
          unread: walked.unread.map(candidate),
        }
      : null,
    answer: given.answer
      ? {
          text: given.answer.answer,
          // why none where nothing was found: the text is of hwdag then, and the citations are of the reply
          words: given.answer.found === false ? [] : linked(given.answer.answer, citations.slice(0, cited), given.answer.answered_by != null),
          found: given.answer.found ?? null,
          confidence: given.answer.confidence ?? null,
          notes: given.answer.notes ?? [],
          isNumbered: given.answer.answered_by != null,
          citations,
          cited,
          cost: `${likely(given.answer)}${given.answer.tokens.toLocaleString("en")} tokens through the model, ${given.answer.tflops.toFixed(3)} TFLOPs, ${given.answer.seconds.toFixed(1)} s`,
        }
      : null,
    graph: given.graphs && given.graphs.length > 0 ? joined(given.graphs, node) : null,
  };
}

/** How sure the reader is of its answer, in words; nothing where it decoded none. */
function likely({ likelihood }: GivenAnswer): string {
  return likelihood !== null ? `likelihood ${likelihood.toFixed(2)} (0 is certain); ` : "";
}

export function overlap(a: Span, b: Span): boolean {
  return a[0] === b[0] && a[1] < b[2] && b[1] < a[2];
}

/** Graphs of several documents side by side, each as wide as it has leaves. */
function joined(graphs: GivenGraph[], node: (one: GivenNode) => GraphNode): Graph {
  const leaves = graphs.map(({ nodes }) => nodes.filter(({ level }) => level === 1).length);
  const all = leaves.reduce((sum, count) => sum + count, 0) || 1;
  const found: Graph = { nodes: [], edges: [] };
  let left = 0;
  graphs.forEach((graph, g) => {
    const first = found.nodes.length;
    graph.nodes.forEach((one, i) => found.nodes.push({ ...node(one), x: (left + graph.x[i]! * leaves[g]!) / all }));
    for (const [from, to, weight] of graph.edges) found.edges.push([from + first, to + first, weight]);
    left += leaves[g]!;
  });
  found.edges.sort((a, b) => b[2] - a[2]);
  return found;
}

/** Python counts characters, a browser counts UTF-16 units: two for those beyond U+FFFF. */
function utf16(text: string): (offset: number) => number {
  const wide: number[] = [];
  let at = 0;
  for (const character of text) {
    if (character.length > 1) wide.push(at);
    at++;
  }
  return (offset) => {
    let [low, high] = [0, wide.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (wide[middle]! < offset) low = middle + 1;
      else high = middle;
    }
    return offset + low;
  };
}

/** The numbers of citations in an answer, else each word with the strongest citation that says it; short words link to none. */
function linked(text: string, citations: Citation[], isNumbered: boolean): [number, number, number][] {
  const found: [number, number, number][] = [];
  const link = (match: RegExpExecArray, citation: number) =>
    citation >= 0 && citation < citations.length && found.push([match.index, match.index + match[0].length, citation]);
  if (isNumbered) for (const match of text.matchAll(/\[(\d{1,6})\]/g)) link(match, Number(match[1]) - 1);
  if (found.length > 0) return found;
  const said = citations.map((one) => new Set(words(one.text)));
  for (const match of text.matchAll(/\S+/g)) {
    const [word] = words(match[0]);
    if (word !== undefined) link(match, said.findIndex((one) => one.has(word)));
  }
  return found;
}

function words(text: string): string[] {
  const found = text.toLocaleLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return found.filter((word) => word.length > 3 || /\p{N}/u.test(word) || /[^\p{ASCII}]/u.test(word));
}
