"""The default reader before its weights are needed: it counts tokens without torch and transformers.

A search that asks no model, a refresh and a server that starts need the reader's facts alone. Importing
both libraries takes seconds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Tokenizer

from hwdag.config import HeadList, Heads
from hwdag.lm.base import Replay, ReplayRequest, WalkSession
from hwdag.lm.cards import Card
from hwdag.lm.layout import SearchLayout, Turns, bullet_line
from hwdag.lm.model_file import card_and_heads
from hwdag.lm.tokens import Codec
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Usage

if TYPE_CHECKING:
    from hwdag.lm.huggingface import HuggingFaceLM

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class DeferredReader:
    """A reader in a checkpoint folder that is loaded for its first forward; its facts are light.

    Args:
        name: recorded in the index.
        folder: a checkpoint of a decoder with `tokenizer.json`, whose tokenizer needs nothing else.
        prompts: those of an adapter; None takes those of the card.
        load: loads the reader itself.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        prompts: SearchPrompts | None,
        load: Callable[[], HuggingFaceLM],
    ) -> None:
        self.name = name
        config = _config(folder)
        self.context_tokens: int = config.max_position_embeddings
        self.replay_batch = 4
        self._codec = Codec(LightTokenizer(folder), is_own=True)  # type: ignore[arg-type]
        card, heads = card_and_heads(None, name, config)
        self.card: Card = card if prompts is None else replace(card, prompts=prompts)
        self.window_tokens = min(card.window_tokens, self.context_tokens)
        self.known_heads: HeadList | None = heads or None
        self._load = load
        self._loading = threading.Lock()
        self._loaded: HuggingFaceLM | None = None

    @property
    def loaded(self) -> HuggingFaceLM:
        """The reader itself; loaded on first use."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loaded, name)

    @cached_property
    def turns(self) -> Turns:
        """The chat template as token ids."""
        return Turns.of(self._codec)

    @property
    def template_tokens(self) -> int:
        """Tokens that the chat template puts around a prompt."""
        return len(self.turns.head) + len(self.turns.summary_reply)

    @property
    def tokenizer_fingerprint(self) -> str:
        """Fingerprint of the tokenizer."""
        return self._codec.fingerprint

    @property
    def usage(self) -> Usage:
        """Cost of all replays and writing so far."""
        return Usage() if self._loaded is None else self._loaded.usage

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, control tokens taken as plain text."""
        return self._codec.count(texts)

    def count_lines(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text as a node: a line with a bullet."""
        return self._codec.count_parts(list(map(bullet_line, texts)))

    def session(
        self, question: str, *, prompts: SearchPrompts, heads: Heads, max_new_tokens: int
    ) -> WalkSession:
        """Return a session that loads the model for its first forward. Raises `QuestionTooLong`."""
        found: Any = DeferredSession(self, question, prompts, heads, max_new_tokens)
        return found  # type: ignore[no-any-return]

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        """Return attention of points to their windows."""
        return self.loaded.replay(requests, heads=heads)

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return greedy replies to chat prompts."""
        return self.loaded.write(prompts, max_new_tokens=max_new_tokens)


class DeferredSession:
    """A session of which only the room is known before its first forward."""

    def __init__(
        self,
        reader: DeferredReader,
        question: str,
        prompts: SearchPrompts,
        heads: Heads,
        max_new_tokens: int,
    ) -> None:
        options = {"prompts": prompts, "heads": heads, "max_new_tokens": max_new_tokens}
        self._open: Callable[[], Any] = lambda: reader.loaded.session(question, **options)  # type: ignore[arg-type]
        self._opened: Any = None
        layout = SearchLayout(reader._codec, reader.turns, question, prompts)
        answering = layout.answering_tokens + max_new_tokens
        self._room = reader.context_tokens - answering - len(layout.opening)
        if self._room < 1:
            self._opened = self._open()  # raises the error, with its numbers

    @property
    def _session(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context."""
        return self._room if self._opened is None else self._opened.room

    @property
    def usage(self) -> Usage:
        """Cost so far."""
        return Usage() if self._opened is None else self._opened.usage

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._session, name)


class LightTokenizer:
    """A tokenizer of the library tokenizers with as much of transformers' interface as `Codec` uses."""

    is_fast = True

    def __init__(self, folder: Path) -> None:
        settings = _json(folder / "tokenizer_config.json")
        template = folder / "chat_template.jinja"
        self._tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.name_or_path = str(folder)
        self.chat_template = template.read_text("utf-8") if template.is_file() else None
        self.special: dict[str, str] = {
            f"{role}_token": token for role in ROLES if (token := settings.get(f"{role}_token"))
        }

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def __getattr__(self, name: str) -> int | None:
        role = name.removesuffix("_token_id")
        if role not in ROLES:
            raise AttributeError(name)
        token = self.special.get(f"{role}_token")
        return None if token is None else self._tokenizer.token_to_id(token)

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Added tokens by id."""
        found: dict[int, AddedToken] = self._tokenizer.get_added_tokens_decoder()
        return found

    @property
    def all_special_tokens(self) -> list[str]:
        """The tokens that have a role, each once."""
        return list(dict.fromkeys(self.special.values()))

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of `all_special_tokens`."""
        ids = map(self._tokenizer.token_to_id, self.all_special_tokens)
        return [i for i in ids if i is not None]

    def __call__(
        self,
        text: str | list[str],
        *,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        **_: object,
    ) -> dict[str, Any]:
        """Return ids and offsets of a text or of each of several."""
        self._tokenizer.encode_special_tokens = split_special_tokens
        texts = [text] if isinstance(text, str) else text
        found = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        ids, offsets = [one.ids for one in found], [one.offsets for one in found]
        if isinstance(text, str):
            return {"input_ids": ids[0], "offset_mapping": offsets[0]}
        return {"input_ids": ids, "offset_mapping": offsets}

    def decode(self, ids: list[int], *, skip_special_tokens: bool, **_: object) -> str:
        """Return the text of ids."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def convert_ids_to_tokens(self, token: int) -> str | None:
        """Return the token of an id."""
        found: str | None = self._tokenizer.id_to_token(token)
        return found

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        """Return the text of the chat template around messages."""
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        template = environment.from_string(self.chat_template or "")
        return template.render(messages=messages, **self.special, **options)


def _config(folder: Path) -> Any:
    """Return the config of a text model, as transformers' own has it."""
    found = SimpleNamespace(**_json(folder / "config.json"))
    found.get_text_config = lambda **_: found
    return found


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))
