// Markdown and tables as people read them. Every character stays in the page, at its place: syntax is
// hidden, not removed, so offsets into the text hold. No part of a text becomes a link or an image.

import { h } from "./dom";

/** The nodes for the characters [start, end) of a text; the caller marks in them what it likes. */
export type Shown = (start: number, end: number) => Node[];

type Range = [start: number, end: number];

/** Characters of a text that is formatted; of a longer one, the elements would slow the browser down. */
const LONGEST = 300_000;

/** Of a table; the lines of a larger one are shown as they are. */
const MOST_CELLS = 20_000;

/** A text with its headings, lists, tables, code and emphasis. */
export function formatted(text: string, shown: Shown): Node[] {
  if (text.length > LONGEST) return shown(0, text.length);
  const found: Node[] = [];
  const lines = linesOf(text);
  for (let i = 0; i < lines.length; ) {
    const next = blockEnd(text, lines, i);
    found.push(...block(text, lines.slice(i, next), shown));
    i = next;
  }
  return found;
}

/** The same for a text in which nothing is marked. */
export function plain(text: string): Node[] {
  return formatted(text, (start, end) => [document.createTextNode(text.slice(start, end))]);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const ROW = /^[ \t]*\|[ \t]?/;
const RULE = /^[ \t:|-]+$/;
const ITEM = /^[ \t]*[-*•][ \t]+(?=\S)/;

// why bounds: a flood of marks must take linear time
const INLINE =
  /\\(?=[\\`*_{}[\]()#+.!|~-])|`([^`\n]{1,400})`|(?<!\w)(\*\*|__)(?=\S)([^\n]{1,400}?\S)\2|(?<![\w*])([*_])(?=[^\s*_])([^*_\n]{1,400})(?<!\s)\4(?![\w*])|!?\[([^\][\n]{0,400})\]\([^()\n]{0,800}\)/g;

/** Whether a line is the one below the names of a table of Markdown. */
function isRule(line: string): boolean {
  return line.includes("-") && RULE.test(line);
}

/** Lines with their line feeds. */
function linesOf(text: string): Range[] {
  const lines: Range[] = [];
  for (let start = 0; start < text.length; ) {
    const feed = text.indexOf("\n", start);
    const end = feed < 0 ? text.length : feed + 1;
    lines.push([start, end]);
    start = end;
  }
  return lines;
}

function kindOf(line: string): "fence" | "heading" | "row" | "item" | "text" {
  return FENCE.test(line) ? "fence" : HEADING.test(line) ? "heading" : ROW.test(line) ? "row" : ITEM.test(line) ? "item" : "text";
}

/** The number of the line after the block that begins at line `i`. */
function blockEnd(text: string, lines: Range[], i: number): number {
  const line = (at: number) => text.slice(...lines[at]!);
  const kind = kindOf(line(i));
  if (kind === "heading" || kind === "item") return i + 1;
  let next = i + 1;
  if (kind === "fence") {
    const fence = FENCE.exec(line(i))![1]!;
    while (next < lines.length && !line(next).trimStart().startsWith(fence)) next++;
    return Math.min(next + 1, lines.length);
  }
  while (next < lines.length && kindOf(line(next)) === kind) next++;
  return next;
}

function block(text: string, lines: Range[], shown: Shown): Node[] {
  const [start, end] = [lines[0]![0], lines[lines.length - 1]![1]];
  const first = text.slice(...lines[0]!);
  switch (kindOf(first)) {
    case "heading": {
      const sign = HEADING.exec(first)!;
      const at = start + sign[0].length;
      return [h("div", { class: `heading level-${sign[1]!.length}` }, hidden(text, start, at), ...inline(text, at, end, shown))];
    }
    case "fence": {
      const isClosed = lines.length > 1 && FENCE.test(text.slice(...lines[lines.length - 1]!));
      const [from, to] = [lines[0]![1], isClosed ? lines[lines.length - 1]![0] : end];
      return [h("div", { class: "code" }, hidden(text, start, from), ...shown(from, to), hidden(text, to, end))];
    }
    case "item": {
      const at = start + ITEM.exec(first)![0].length;
      const item = h("div", { class: "item" }, hidden(text, start, at), ...inline(text, at, end, shown));
      item.style.marginLeft = `${1.2 + 0.4 * Math.min(12, first.search(/\S/))}rem`;
      return [item];
    }
    case "row":
      return table(text, lines, shown);
    default:
      return inline(text, start, end, shown);
  }
}

/** A table of Markdown, or one of hwdag, whose rows repeat the names of their columns: "| Flat, Rent: 500". */
function table(text: string, lines: Range[], shown: Shown): Node[] {
  const isRuled = lines.length > 1 && isRule(text.slice(...lines[1]!).trim());
  if (lines.length < 2) return lines.flatMap((line) => cells(text, withoutMark(text, line), [line], shown));
  const names = isRuled ? pipes(text, lines[0]!) : namesOf(text, lines[0]!);
  if (names.length * lines.length > MOST_CELLS) return lines.flatMap((line) => cells(text, withoutMark(text, line), [line], shown));
  // why: the first line of some tables is a row, too; then every line is one cell
  const isNamed = lines.slice(1).some((line) => named(text, line, names).slice(1).some((part) => part !== null));
  const rows = lines.map((line, i) => {
    if (isRuled && i === 1) return h("tr", { hidden: true }, h("td", {}, text.slice(...line)));
    const parts = isRuled ? atMost(pipes(text, line), names.length) : !isNamed ? [withoutMark(text, line)] : i === 0 ? names : named(text, line, names);
    const tag = i === 0 && (isRuled || isNamed) ? "th" : "td";
    return h("tr", {}, ...row(text, line, parts, tag, shown));
  });
  return [h("table", {}, h("tbody", {}, ...rows))];
}

/** The cells of a row; what lies between them is hidden within the one before. */
function row(text: string, line: Range, parts: (Range | null)[], tag: "th" | "td", shown: Shown): Node[] {
  let at = line[0];
  const last = parts.reduce((found, part, i) => (part ? i : found), 0);
  return parts.map((part, i) => {
    if (!part) return h(tag);
    const cell = h(tag, {}, hidden(text, at, part[0]), ...inline(text, part[0], part[1], shown));
    at = part[1];
    if (i === last) cell.append(hidden(text, at, line[1])!);
    return cell;
  });
}

/** A line of one row, without its mark. */
function cells(text: string, [start, end]: Range, [line]: [Range], shown: Shown): Node[] {
  return [h("div", { class: "row" }, hidden(text, line[0], start), ...inline(text, start, end, shown), hidden(text, end, line[1]))];
}

function withoutMark(text: string, [start, end]: Range): Range {
  const line = text.slice(start, end);
  return [start + ROW.exec(line)![0].length, start + line.trimEnd().length];
}

/** Between the bars of a row of Markdown. */
function pipes(text: string, line: Range): Range[] {
  const [from, to] = withoutMark(text, line);
  const bars: number[] = [];
  for (let i = from; i < to; i++) if (text[i] === "|" && text[i - 1] !== "\\") bars.push(i);
  if (bars[bars.length - 1] !== to - 1) bars.push(to);
  return bars.map((bar, i) => trimmed(text, i === 0 ? from : bars[i - 1]! + 1, bar));
}

/** At most so many cells; the last one takes the rest. */
function atMost(parts: Range[], most: number): Range[] {
  return parts.length <= most ? parts : [...parts.slice(0, most - 1), [parts[most - 1]![0], parts[parts.length - 1]![1]]];
}

function trimmed(text: string, start: number, end: number): Range {
  while (start < end && text[start] === " ") start++;
  while (end > start && text[end - 1] === " ") end--;
  return [start, end];
}

/** The names of columns in the first line of a table of hwdag. */
function namesOf(text: string, first: Range): Range[] {
  const [from, to] = withoutMark(text, first);
  const names: Range[] = [];
  let at = from;
  const line = text.slice(from, to);
  for (const name of line.split(line.includes("; ") ? "; " : ", ")) {
    names.push([at, at + name.length]);
    at += name.length + 2;
  }
  return names;
}

/** The values of a row under those names; null for a column that the row leaves out. */
function named(text: string, line: Range, names: Range[]): (Range | null)[] {
  const [from, to] = withoutMark(text, line);
  const row = text.slice(from, to); // why: a name that is missing is looked for in this row alone
  const found: (Range | null)[] = [[from, to]];
  let last = 0;
  for (let i = 1; i < names.length; i++) {
    const sign = ` ${text.slice(...names[i]!)}: `;
    let at = row.indexOf(sign, found[last]![0] - from) - 1;
    while (at >= 0 && !",;".includes(row[at]!)) at = row.indexOf(sign, at + 2) - 1;
    if (at < 0) found.push(null);
    else {
      found[last]![1] = from + at;
      found.push([from + at + 1 + sign.length, to]);
      last = i;
    }
  }
  return found;
}

/** A range with its emphasis; signs are hidden. */
function inline(text: string, start: number, end: number, shown: Shown): Node[] {
  const found: Node[] = [];
  let at = start;
  for (const match of text.slice(start, end).matchAll(INLINE)) {
    const from = start + match.index;
    const inner = match[1] ?? match[3] ?? match[5] ?? match[6];
    const to = from + match[0].length;
    if (from > at) found.push(...shown(at, from));
    const begin = inner === undefined ? to : from + match[0].indexOf(inner, match[6] === undefined ? 0 : match[0].indexOf("[") + 1);
    const done = inner === undefined ? to : begin + inner.length;
    found.push(...[hidden(text, from, begin)].filter((one) => one !== null));
    if (done > begin) {
      const tag = match[1] !== undefined ? "code" : match[3] !== undefined ? "strong" : match[5] !== undefined ? "em" : null;
      found.push(...(tag ? [h(tag, {}, ...shown(begin, done))] : shown(begin, done)));
    }
    found.push(...[hidden(text, done, to)].filter((one) => one !== null));
    at = to;
  }
  if (end > at) found.push(...shown(at, end));
  return found;
}

function hidden(text: string, start: number, end: number): HTMLElement | null {
  return end > start ? h("span", { class: "syntax", hidden: true }, text.slice(start, end)) : null;
}
