// What the views show. Offsets count UTF-16 units, as strings do here.

export type Span = [document: number, start: number, end: number];

export interface SourceDocument {
  id: string;
  title: string;
  text: string;
  /** Offsets at which the pages of a PDF begin; empty where there are none. */
  pages: number[];
  /** What was left out, hidden, unreadable or guessed in the file. */
  notes: string[];
}

export interface GraphNode {
  id: string;
  document: number;
  level: number;
  text: string;
  origin: string;
  tokens: number;
  spans: Span[];
}

/** A node with the parts of its score; its document is -1 where the page has not its text. */
export interface Candidate extends GraphNode {
  document_id: string;
  attention: number;
  similarity: number;
  reference: number;
}

export interface Step extends Candidate {
  position: number;
  initial: boolean;
  relevance: number | null;
  p_yes: number | null;
  /** The best nodes that could have been read instead. */
  runners_up: Candidate[];
}

export interface Walk {
  question: string;
  stop: string;
  why: string;
  notes: string[];
  tokens: number;
  steps: Step[];
  /** The best nodes that were not read. */
  unread: Candidate[];
}

export interface Citation {
  span: Span;
  text: string;
  weight: number;
  step: number;
}

export interface Answer {
  text: string;
  /** Parts of the text with the citation that says them. */
  words: [start: number, end: number, citation: number][];
  /** Whether the documents seem to hold an answer; null if unknown. */
  found: boolean | null;
  /** Probability that the answer is right; null if unknown. */
  confidence: number | null;
  /** What was wrong with the reply, such as a cut. */
  notes: string[];
  /** Whether citations have the numbers of the text. */
  isNumbered: boolean;
  /** Every sentence that was read, by the answer's attention to it. */
  citations: Citation[];
  /** How many of them, from the first, are what the answer cites. */
  cited: number;
  cost: string;
}

export interface Graph {
  nodes: (GraphNode & { x: number })[];
  /** From, to, weight; strongest first. */
  edges: [number, number, number][];
}

export interface Page {
  title: string;
  version: string;
  documents: SourceDocument[];
  walk: Walk | null;
  answer: Answer | null;
  graph: Graph | null;
}
