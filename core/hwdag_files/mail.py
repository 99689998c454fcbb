"""Mails to text: headers as lines, the readable part of the body, attachments by name."""

from __future__ import annotations

import codecs
import email
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any

from hwdag_files.blocks import no_heading
from hwdag_files.content import Content, UnreadableError
from hwdag_files.encodings import decoded
from hwdag_files.html import html_content

SHOWN = ("Subject", "From", "To", "Cc", "Date")
"""Headers that are lines of the text."""

MOST_NAMED = 20  # attachments that a note names

_FROM = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\r\n]*\d:\d\d[^\r\n]*\r?\n")
_ESCAPED_FROM = re.compile(rb"^>(>*From )", re.M)
_SIGNATURES = (
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
)


class _Raw(Compat32):
    """Leaves headers as they are written; bytes beyond ASCII are lone surrogates."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


@dataclass(slots=True)
class _Found:
    """The text of a mail, and its omissions."""

    texts: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    is_encrypted: bool = False


def mail_content(data: bytes) -> Content:
    """Read a mail. Raises `UnreadableError` if it is encrypted."""
    mail, notes = _parsed(data), tuple[str, ...]()
    if not any(mail.get(name) for name in SHOWN):
        text, notes = decoded(data)
        mail = _parsed(text.encode())  # why: some programs save mails as UTF-16
        if not any(mail.get(name) for name in SHOWN):
            return Content(text, "", (*notes, "no headers of a mail: read as text"))
    found = _Found()
    text = _written(mail, found)
    if found.is_encrypted and not any(found.texts):
        raise UnreadableError("the mail is encrypted; give it as its program shows it")
    notes += _notes([found])
    return Content(text, _header(mail, "Subject"), notes, metadata=_metadata(mail))


def _parsed(data: bytes) -> Message:
    return email.message_from_bytes(data, policy=_Raw())


def mailbox_content(data: bytes) -> Content:
    """Read the mails of a mailbox (mbox), each below its subject."""
    starts = [(match.start(), match.end()) for match in _FROM.finditer(data)]
    if not starts or starts[0][0] > 0:
        raise UnreadableError("not a mailbox: its first line does not begin with 'From '")
    ends = [start for start, _ in starts[1:]] + [len(data)]
    texts, found = list[str](), list[_Found]()
    for (_, start), end in zip(starts, ends, strict=True):
        mail = _parsed(_ESCAPED_FROM.sub(rb"\1", data[start:end]))
        found.append(_Found())
        subject = _header(mail, "Subject") or f"Mail {len(found)}"
        texts.append(f"# {subject}\n\n{_written(mail, found[-1])}")
    return Content("\n\n".join(texts), "", _notes(found))


def _notes(found: Iterable[_Found]) -> tuple[str, ...]:
    """Return the notes of mails, equal ones once with their number."""
    notes, names, encrypted = Counter[str](), list[str](), 0
    for one in found:
        notes += one.notes
        names += one.attachments
        encrypted += one.is_encrypted
    texts = [f"{note} ({number} times)" if number > 1 else note for note, number in notes.items()]
    if encrypted:
        texts.append(f"{encrypted} encrypted part{'s' * (encrypted > 1)} left out")
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        texts.append(f"attachments left out: {', '.join(names[:MOST_NAMED])}{more}")
    return tuple(texts)


def _written(mail: Message, found: _Found) -> str:
    """Return the headers and the body of a mail."""
    start = len(found.attachments)
    body = [text for part in _parts(mail, found) if (text := part.strip())]
    lines = [f"{name}: {value}" for name in SHOWN if (value := _header(mail, name))]
    if names := found.attachments[start:]:
        lines.append(f"Attachments: {', '.join(names)}")
    found.texts += body
    return "\n\n".join(["\n".join(lines), *body]).strip()


def _parts(mail: Message, found: _Found) -> Iterator[str]:
    """Yield the texts of a message in their order; of alternatives the plain text, unless it is empty."""
    kind = mail.get_content_type()
    if kind in ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"):
        found.is_encrypted = True
    elif kind == "multipart/alternative" and mail.is_multipart():
        yield from _alternative(mail, found)
    elif kind == "message/rfc822" and mail.is_multipart():
        yield from (_written(_unpacked(mail, inner), found) for inner in _children(mail))
    elif kind.startswith("multipart/") and mail.is_multipart():
        for inner in _children(mail):
            yield from _parts(inner, found)
    # why the first: the other parts are missing
    elif kind.startswith("multipart/") or (
        kind in ("text/plain", "text/html") and not _is_attached(mail)
    ):
        yield _text(mail, found)
    elif kind not in _SIGNATURES:
        name = " ".join(_plain(mail.get_filename() or "").split())
        found.attachments.append(name or f"one without a name ({kind})")


def _children(mail: Message) -> list[Message]:
    payload: Any = mail.get_payload()
    return [one for one in payload if isinstance(one, Message)]


def _unpacked(mail: Message, inner: Message) -> Message:
    """Return a forwarded mail, which some programs encode like a file."""
    if inner.keys() or not mail.get("Content-Transfer-Encoding"):
        return inner
    inner["Content-Transfer-Encoding"] = mail["Content-Transfer-Encoding"]
    payload: Any = inner.get_payload(decode=True)
    return _parsed(payload or b"")


def _alternative(mail: Message, found: _Found) -> Iterator[str]:
    """Yield the first of the alternatives that is plain text, else the first one with a text."""
    children = sorted(_children(mail), key=lambda one: one.get_content_type() != "text/plain")
    for inner in children:
        attempt = _Found()
        texts = list(_parts(inner, attempt))
        if any(map(str.strip, texts)) or inner is children[-1]:
            found.attachments += attempt.attachments
            found.notes += attempt.notes
            found.is_encrypted |= attempt.is_encrypted
            yield from texts
            return


def _is_attached(mail: Message) -> bool:
    return mail.get_content_disposition() == "attachment" or mail.get_filename() is not None


def _text(mail: Message, found: _Found) -> str:
    """Return the text of a part, whatever its encoding."""
    payload: Any = mail.get_payload(decode=True)
    charset = _charset(mail)
    text, notes = decoded(payload or b"", charset)
    if mail.get_content_type() == "text/html":
        page = html_content(codecs.BOM_UTF8 + text.encode())
        text, notes = page.text, (*notes, *page.notes)
    elif str(mail.get_param("delsp", "")).lower() == "yes":
        text = re.sub(r"(?<!^--) \n", "", text, flags=re.M)
    if mail.get_content_type() != "text/html":
        text = no_heading(text)
    found.notes.update(notes)
    return text


def _charset(mail: Message) -> str:
    """Return the character set that a part declares, if it is known and more than ASCII."""
    try:
        name = codecs.lookup(mail.get_content_charset("ascii")).name
        b"a".decode(name)
    except (LookupError, UnicodeError, AssertionError):
        return "utf-8"
    return "utf-8" if name == "ascii" else name


def _header(mail: Message, name: str) -> str:
    """Return the values of a header in one line."""
    return ", ".join(" ".join(_plain(value).split()) for value in mail.get_all(name, []))


def _plain(value: str) -> str:
    """Return a header with its encoded words decoded (RFC 2047); raw bytes are read as texts are."""
    raw, _ = decoded(value.encode("utf-8", "surrogateescape"))
    with suppress(HeaderParseError, LookupError, UnicodeError, ValueError):
        return str(make_header(decode_header(re.sub(r"\n(?=[ \t])", "", raw))))
    return raw


def _metadata(mail: Message) -> dict[str, Any]:
    """Return the headers that a filter can use: subject, day and time, and bare addresses."""
    found: dict[str, Any] = {"subject": _header(mail, "Subject")}
    for name in ("From", "To", "Cc"):
        # why not decoded: a name may have a comma then
        pairs = getaddresses(mail.get_all(name, []))
        found[name.lower()] = [_plain(address) for _, address in pairs if address]
    with suppress(ValueError, TypeError, OverflowError):
        found["date"] = parsedate_to_datetime(_header(mail, "Date")).isoformat()
    found["message_id"] = _header(mail, "Message-ID")
    return {name: value for name, value in found.items() if value}
