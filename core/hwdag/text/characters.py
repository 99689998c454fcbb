"""Characters that cannot be taken as they are: by a tokenizer, within a line, on a terminal.

Stored texts do not change, since spans count their characters. Characters that replace others
in a prompt do so one for one; only text that is shown to people, or sent to a writer, gets longer.
"""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LINE_BREAKS = {ord(c): " " for c in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}

# Control characters but tab and line feed, and those that reorder, hide or carry invisible text. Joiners
# and the marks of single letters' direction stay: scripts and emoji need them.
_HIDDEN = (
    "\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_UNSEEN = re.compile(f"[{_HIDDEN}]")
_SEEN = re.compile(rf"[^\s\u200c\u200d{_HIDDEN}]")

# Spellings of control tokens of the families that are served: ChatML and Llama 3, DeepSeek,
# sentencepiece and Gemma, Mistral, Llama 2. Only the first character is matched.
_CONTROL_SPELLING = re.compile(
    r"<(?=\|[^\s|<>]{1,64}\|>|｜[^\s<>]{1,64}｜>"
    r"|/?(?:s|bos|eos|pad|unk|cls|sep|mask|think|[A-Za-z]+(?:_[A-Za-z0-9]+)+)>|</?SYS>>)"
    r"|\[(?=/?(?:INST|IMG|BOS|EOS|gMASK|[A-Z]+(?:_[A-Z]+)+)\])"
)


def without_surrogates(text: str) -> tuple[str, int]:
    """Replace lone surrogates, which no tokenizer takes; returns their number too."""
    return _SURROGATE.subn(_REPLACEMENT, text)


def one_line(text: str) -> str:
    """Put a space for every line break: in a prompt a node is one line."""
    return text.translate(_LINE_BREAKS)


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing, not even one character."""
    return _SEEN.search(text) is None


def visible(text: str) -> str:
    r"""Spell out, as JSON does, characters that a terminal may not show: characters that move the cursor, reorder or hide."""
    return _UNSEEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def disarmed(text: str) -> str:
    """Put a space into the spelling of control tokens, for models that we do not tokenise.

    A server may read `<|im_end|>` in a prompt as the token that ends a turn.
    """
    return _CONTROL_SPELLING.sub(r"\g<0> ", text)
