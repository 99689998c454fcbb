"""reStructuredText to text: headings, tables and code as in Markdown, the words of directives and roles.

Nothing is included from other files. The marks are those of docutils, and of Sphinx.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import dedent

from hwdag.text.tables import separated_lines, table_lines
from hwdag_files.blocks import joined
from hwdag_files.content import Content, as_notes
from hwdag_files.encodings import decoded
from hwdag_files.rst_tables import grid_rows, simple_rows

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*")
_SIMPLE_BORDER = re.compile(r"\s*={2,}(?: +={2,})+\s*")
_GRID_BORDER = re.compile(r"\s*\+(?:[-=]+\+)+\s*")
_DIRECTIVE = re.compile(
    r"\s*\.\.\s+(?:\|(?P<substitution>[^|]+)\|\s+)?(?P<name>[\w+.:-]*\w)\s*::(?:\s+(?P<words>.*))?"
)
_TARGET = re.compile(r"\s*(?:\.\.\s+_|__ )")
_NOTE = re.compile(r"\s*\.\.\s+(\[[^\]]+\])(?:\s+(.*))?")
_COMMENT = re.compile(r"\s*\.\.(?:\s.*)?")
_OPTION = re.compile(r"\s*:([\w-]+):(?:\s+(.*))?")
_FIELD = re.compile(r":(?![: ])([^:\n]{1,60}):(?:\s+(.*))?")
_ITEM = re.compile(r"(\s*)(?:([-*+•])|#[.)]|\(?#\)|(\(?(?:\d{1,3}|[a-z])[.)]))\s+(.*)")

_CODE = frozenset(
    [
        "code",
        "code-block",
        "sourcecode",
        "parsed-literal",
        "math",
        "doctest",
        "testcode",
        "testoutput",
        "prompt",
    ]
)
_NAVIGATION = frozenset(
    [
        "toctree",
        "contents",
        "index",
        "sectnum",
        "meta",
        "default-role",
        "role",
        "highlight",
        "target-notes",
        "class",
    ]
)
_ELSEWHERE = frozenset(["include", "literalinclude", "raw"])
_NAMED = frozenset(
    [
        "note",
        "warning",
        "tip",
        "hint",
        "important",
        "caution",
        "danger",
        "attention",
        "error",
        "todo",
    ]
)
"""Directives that show their name above their text."""

_VERSIONS = {
    "versionadded": "Added in",
    "versionchanged": "Changed in",
    "deprecated": "Deprecated since",
}

_INLINE = (
    (re.compile(r"``(.+?)``"), r"\1"),
    (re.compile(r":[\w+.:-]{1,60}:`[~!]?([^`<]{1,999}?)(?:\s{0,9}<[^`>]{0,999}>)?`"), r"\1"),
    (re.compile(r"`([^`<]{1,999}?)(?:\s{0,9}<[^`>]{0,999}>)?`__?"), r"\1"),
    (re.compile(r"`<([^`>]{1,999})>`__?"), r"\1"),
    (re.compile(r"(?<![`\w\\])`([^`]{1,999})`(?::[\w+.:-]{1,60}:)?"), r"\1"),
    (re.compile(r"(?<![\w*\\])\*\*(\S(?:[^*]{0,999}\S)?)\*\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<![\w*\\])\*(\S(?:[^*]{0,999}\S)?)\*(?![\w*])"), r"\1"),
    (re.compile(r"(\[[^\[\]\s]{1,60}\])_(?!\w)"), r"\1"),
    (re.compile(r"(?<![\w.-])(\w[\w.-]{0,60})(?<!_)__?(?=[\s.,;:!?)\]]|$)"), r"\1"),
    (re.compile(r"\\(\s?)(\S?)"), r"\2"),
)
"""Marks within a line, and the words in them; bounded, as a mark may have no end."""

_NOTES = {
    "comment": "{} comment{s} left out",
    "elsewhere": "{} directive{s} left out that include other files or raw output",
    "picture": "{} picture{s} not read",
}


def rst_content(data: bytes) -> Content:
    """Read reStructuredText; fields below the title are metadata, too."""
    text, notes = decoded(data)
    reader = _Reader(text)
    blocks = list(reader.blocks(text.expandtabs(8).split("\n"), is_top=True))
    found = joined(blocks)
    notes = (*notes, *as_notes(reader.noted, _NOTES))
    return Content(found, reader.title, notes, metadata=reader.metadata)


class _Reader:
    def __init__(self, text: str) -> None:
        self.noted = Counter[str]()
        self.styles = list[tuple[str, bool]]()  # of headings: sign, and whether a line is above
        self.title = ""
        self.metadata = dict[str, str]()
        self.substitutions = {
            match["substitution"]: (match["words"] or "").strip()
            for match in map(_DIRECTIVE.fullmatch, text.split("\n"))
            if match and match["substitution"] and match["name"] == "replace"
        }

    def blocks(self, lines: Sequence[str], *, is_top: bool = False) -> Iterator[str]:
        """Yield headings, paragraphs, items, tables and code."""
        readers = (self._heading, self._table, self._marked, self._paragraph)
        at, is_data = 0, is_top  # only fields at the very top, or below the title, are metadata
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            for read in readers if is_top else readers[1:]:
                end, blocks = read(lines, at)
                if end > at:
                    break
            field = _FIELD.fullmatch(lines[at].strip())
            if is_data and field:
                self.metadata[field[1].lower()] = " ".join(blocks[0].split()).partition(": ")[2]
            is_data = is_data and (field is not None or blocks in ([], [f"# {self.title}"]))
            yield from blocks
            at = end

    def _heading(self, lines: Sequence[str], at: int) -> tuple[int, list[str]]:
        """Return the end and the block of a heading; the rank of a style is that of its first heading."""
        line, *below = [one.rstrip() for one in lines[at : at + 3]]
        if _is_adornment(line):
            is_boxed = len(below) > 1 and below[0].strip() and below[1] == line
            if not is_boxed:
                is_rule = len(line) > 3 and not "".join(below[:1])
                return (at + 1, []) if is_rule else (at, [])
            title, end = below[0].strip(), at + 3
        else:
            is_long = below and _is_adornment(below[0]) and len(below[0]) >= min(4, len(line))
            if not is_long or line[0].isspace():
                return at, []
            title, end = line, at + 2
        style = (lines[end - 1][0], end == at + 3)
        if style not in self.styles:
            self.styles.append(style)
        title = self._inline(title)
        rank = self.styles.index(style) + 1
        self.title = self.title or title
        return end, [f"{'#' * min(rank, 6)} {title}"]

    def _table(self, lines: Sequence[str], at: int) -> tuple[int, list[str]]:
        if _SIMPLE_BORDER.fullmatch(lines[at]):
            end, rows, has_header = simple_rows(lines, at)
        elif _GRID_BORDER.fullmatch(lines[at]):
            end, rows, has_header = grid_rows(lines, at)
        else:
            return at, []
        shown = [[self._inline(cell) for cell in row] for row in rows]
        return end, ["\n".join(table_lines(shown, has_header=has_header or None))] if rows else []

    def _marked(self, lines: Sequence[str], at: int) -> tuple[int, list[str]]:
        """Read a directive, a note, a target or a comment with the lines that are indented below it."""
        line = lines[at]
        if not (_COMMENT.fullmatch(line) or _TARGET.match(line)):
            return at, []
        end = _block_end(lines, at + 1, _indent(line))
        body = dedent("\n".join(lines[at + 1 : end])).split("\n")
        if match := _DIRECTIVE.fullmatch(line):
            return end, [] if match["substitution"] else list(self._directive(match, body))
        if match := _NOTE.fullmatch(line):
            text = " ".join(self.blocks([match[2] or "", *body]))
            return end, [f"{match[1]} {text}".strip()]
        if not _TARGET.match(line):
            self.noted["comment"] += 1
        return end, []

    def _directive(self, match: re.Match[str], body: Sequence[str]) -> Iterator[str]:
        name = match["name"].lower()
        words = (match["words"] or "").strip()
        options = dict[str, str]()
        while body and (option := _OPTION.fullmatch(body[0])):
            options[option[1]] = option[2] or ""
            body = body[1:]
        if name in _ELSEWHERE or "file" in options or "url" in options:
            self.noted["elsewhere"] += 1
        elif name in _CODE:
            yield from _fenced("\n".join([words, *body] if name in ("math", "prompt") else body))
        elif name in ("image", "figure"):
            self.noted["picture"] += 1
            yield from filter(None, [self._inline(options.get("alt", "")), *self.blocks(body)])
        elif name in ("csv-table", "list-table"):
            yield from filter(None, [self._inline(words), self._rows(name, options, body)])
        elif name not in _NAVIGATION:
            inner = list(self.blocks([words, *body] if name in _NAMED else body))
            lead = f"{name.capitalize()}:" if name in _NAMED else self._inline(words)
            if name in _VERSIONS:
                lead = f"{_VERSIONS[name]} {lead}{':' * bool(inner)}"
            if name in _NAMED or name in _VERSIONS:
                lead, inner = " ".join([lead, *inner[:1]]), inner[1:]
            yield from filter(None, [lead, *inner])

    def _rows(self, name: str, options: dict[str, str], body: Sequence[str]) -> str:
        text = "\n".join(body).strip("\n")
        if name == "csv-table":
            whole = re.sub(r',[ \t]+"', ',"', f"{options.get('header', '')}\n{text}".strip())
            return "\n".join(separated_lines(whole))
        rows = [
            re.split(r"(?m)^\s{2}\s*-(?:\s|$)", row)
            for row in re.split(r"(?m)^\*\s+-(?:\s|$)", text)[1:]
        ]
        cells = [[self._inline(" ".join(cell.split())) for cell in row] for row in rows]
        return "\n".join(
            table_lines(cells, has_header=options.get("header-rows", "0") != "0" or None)
        )

    def _paragraph(self, lines: Sequence[str], at: int) -> tuple[int, list[str]]:
        """Read a paragraph, an item, a term with its description, or a field; and code below it."""
        indent, end = _indent(lines[at]), at + 1
        while end < len(lines) and lines[end].strip() and not _begins(lines, end, at):
            end += 1
        part = list(lines[at:end])
        if part[0].lstrip().startswith(">>> "):
            return end, list(_fenced(dedent("\n".join(part))))
        if match := _FIELD.fullmatch(part[0].strip()):
            end = _block_end(lines, at + 1, indent)
            body = dedent("\n".join(lines[at + 1 : end])).split("\n")
            first, *rest = [*self.blocks([match[2] or "", *body]), ""]
            is_apart = first.lstrip().startswith(("- ", "| ", "`"))
            blocks = [f"{match[1]}:", first] if is_apart else [f"{match[1]}: {first}".strip()]
            return end, [*blocks, *filter(None, rest)]
        is_lead, after = part[-1].rstrip().endswith("::"), end
        blocks = list(self._written(part))
        while is_lead and after < len(lines) and not lines[after].strip():
            after += 1
        if is_lead and after < len(lines) and _indent(lines[after]) > indent:
            end = _block_end(lines, after, indent)
            blocks += _fenced(dedent("\n".join(lines[after:end])))
        return end, blocks

    def _written(self, part: list[str]) -> Iterator[str]:
        """Yield the blocks of the lines of a paragraph without its marks."""
        if part[-1].rstrip().endswith("::"):
            part[-1] = part[-1].rstrip()[:-2]
            part[-1] += ":" if part[-1].strip() and not part[-1].endswith(" ") else ""
        indent = _indent(part[0])
        if item := _ITEM.fullmatch(part[0]):
            text = self._inline(" ".join([item[4], *map(str.strip, part[1:])]))
            number = item[3] if item[3] and item[3][0].isdigit() else ""
            lead = number or (f"- {item[3]}" if item[3] else "-")
            yield f"{' ' * (indent // 2 * 2)}{lead} {text}"
        elif all(line.strip() == "|" or line.lstrip().startswith("| ") for line in part):
            yield "\n".join(self._inline(line.strip()[1:].strip()) for line in part)
        elif len(part) > 1 and all(_indent(line) > indent for line in part[1:]):
            yield f"- {self._inline(part[0].strip())}"
            yield f"  - {self._inline(' '.join(map(str.strip, part[1:])))}"
        elif text := self._inline("\n".join(map(str.strip, part))).strip():
            yield text

    def _inline(self, text: str) -> str:
        for pattern, words in _INLINE:
            text = pattern.sub(words, text)
        return re.sub(
            r"\|([^|\s][^|\n]{0,99})\|_{0,2}",
            lambda one: self.substitutions.get(one[1], one[0]),
            text,
        )


def _is_adornment(line: str) -> bool:
    return bool(line) and _ADORNMENT.fullmatch(line) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _begins(lines: Sequence[str], at: int, start: int) -> bool:
    """Return whether a line begins another block, directly below the paragraph or item of `start`."""
    line, indent = lines[at], _indent(lines[start])
    if _ITEM.fullmatch(line) and _ITEM.fullmatch(lines[start]):
        return True
    if _FIELD.fullmatch(line.strip()) and _FIELD.fullmatch(lines[start].strip()):
        return _indent(line) <= indent
    return _indent(line) == indent and _COMMENT.fullmatch(line) is not None


def _block_end(lines: Sequence[str], at: int, indent: int) -> int:
    """Return the end of the lines that are blank or indented more."""
    end = at
    for number in range(at, len(lines)):
        if lines[number].strip():
            if _indent(lines[number]) <= indent:
                break
            end = number + 1
    return end


def _fenced(code: str) -> Iterator[str]:
    if code.strip():
        longest = max(map(len, re.findall("`{3,}", code)), default=2)
        fence = "`" * (longest + 1)
        yield f"{fence}\n{code.strip(chr(10))}\n{fence}"
