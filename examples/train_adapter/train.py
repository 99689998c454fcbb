"""Train an adapter; killed and started again it continues from its last checkpoint.

    python -m examples.train_adapter.train --examples data/train.jsonl --out run --tokens 1000000

Writes to `--out`: `log.jsonl` (one line per step), `loss.png`, `adapter/` (PEFT's format), copies of
it on the way (`--keep-tokens`), and `state.safetensors` with `state.json` (float32 weights, optimizer, position in the data).
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType

import torch
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

from examples.train_adapter import lora
from examples.train_adapter.lines import Json, lines_of
from examples.train_adapter.losses import Objective, Weights
from examples.train_adapter.plot import plot
from examples.train_adapter.trees import Planter, Tree
from hwdag.lm.default import BASE_MODEL, load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.prompts import SearchPrompts

SHAPE = ("model", "turns", "rank", "alpha", "first_layer")
"""Options that a run cannot change when it continues."""

WARM_UP, DECAY, FINAL_RATE = 0.04, 0.3, 0.02
POOL = 256
"""Examples that are sorted by length together: batches without padding, in a random order."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default=BASE_MODEL)
    parser.add_argument(
        "--turns",
        type=int,
        choices=(1, 2),
        default=2,
        help="in which the reader is asked: 2 as in the papers, or 1 with the question again",
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="to train on, padding apart")
    parser.add_argument("--batch-tokens", type=int, default=2000, help="per forward")
    parser.add_argument("--accumulate", type=int, default=1, help="forwards per step")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--alpha", type=float, default=32.0)
    parser.add_argument("--first-layer", type=int, default=0)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--start", type=Path, help="adapter of the same shape to begin with")
    parser.add_argument("--save-minutes", type=float, default=10.0)
    parser.add_argument("--keep-tokens", type=int, help="tokens between adapters that are kept")
    parser.add_argument("--limit", type=int, help="use the first examples only")
    parser.add_argument("--seed", type=int, default=0)
    for name, default in asdict(Weights()).items():
        parser.add_argument(f"--loss-{name}", type=float, default=default)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train until the tokens are used up, or until a signal asks to stop."""
    options = parsed(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    device = None if options.device == "auto" else options.device
    # the plain products stay in bf16, as the fused kernel's do
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    lm = load_reader(options.model, dtype=options.dtype, device=device)
    prompts = SearchPrompts.one_turn() if options.turns == 1 else SearchPrompts()
    lm.card = replace(lm.card, prompts=prompts)
    lora.add(
        lm.model,
        rank=options.rank,
        alpha=options.alpha,
        first_layer=options.first_layer,
        seed=options.seed,
    )
    if options.start:
        lora.load(lm.model, options.start)
    weights = Weights(**{name: getattr(options, f"loss_{name}") for name in asdict(Weights())})
    Training(options, lm, Objective(lm, weights, heads=None)).run()


class Training:
    """The state of a run: parameters, optimizer, and how far it came."""

    def __init__(
        self, options: argparse.Namespace, lm: HuggingFaceLM, objective: Objective
    ) -> None:
        self.options, self.lm, self.objective = options, lm, objective
        self.parameters = lora.parameters(lm.model)
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0
        )
        self.step, self.tokens = 0, 0
        self.examples = list(lines_of(options.examples))[: options.limit]
        self.stopped = False

    def run(self) -> None:
        """Step by step, with checkpoints."""
        self._restore()
        saved = time.monotonic()
        with (
            self._stoppable(),
            (self.options.out / "log.jsonl").open("a", encoding="utf-8") as log,
        ):
            for group in self._groups():
                if self.stopped or self.tokens >= self.options.tokens:
                    break
                before = self.tokens
                record = self._update(group)
                log.write(json.dumps(record) + "\n")
                log.flush()
                keep = self.options.keep_tokens
                if keep and self.tokens // keep > before // keep:
                    self._save_adapter(f"adapter_{self.tokens // 1000}k")
                if time.monotonic() - saved > 60 * self.options.save_minutes:
                    self._save()
                    saved = time.monotonic()
            self._save()

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Signals end the run after the step."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.stopped = True

        before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _update(self, group: Sequence[Sequence[Tree]]) -> Json:
        """Return one optimizer step over several forwards."""
        began = time.perf_counter()
        done = min(1.0, self.tokens / self.options.tokens)
        for settings in self.optimizer.param_groups:
            settings["lr"] = self.options.rate * rate(done)
        trees = sum(len(batch) for batch in group)
        parts: dict[str, list[float]] = {}
        for batch in group:
            with attention_kernel(self.lm):
                loss, found = self.objective(batch)
                torch.autograd.backward(loss * len(batch) / trees)
            for name, value in found.items():
                parts.setdefault(name, []).append(value)
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        seconds, tokens = time.perf_counter() - began, sum(len(t.ids) for b in group for t in b)
        self.step, self.tokens = self.step + 1, self.tokens + tokens
        losses = {name: round(sum(values) / len(values), 4) for name, values in parts.items()}
        return {
            "step": self.step,
            "tokens": self.tokens,
            "trees": trees,
            "rate": self.options.rate * rate(done),
            "norm": round(norm, 3),
            "tokens_per_second": round(tokens / seconds, 1),
            **losses,
        }

    def _groups(self) -> Iterator[list[list[Tree]]]:
        """Batches of all steps that are still to be done; the same ones after a restart."""
        planter, step, epoch = Planter(self.lm), 0, 0
        group: list[list[Tree]] = []
        while self.examples:
            for batch in self._batches(planter, epoch):
                group.append(batch)
                if len(group) == self.options.accumulate:
                    step += 1
                    if step > self.step:
                        yield group
                    group = []
            epoch += 1

    def _batches(self, planter: Planter, epoch: int) -> Iterator[list[Tree]]:
        rng = random.Random(f"{self.options.seed} {epoch}")
        order = rng.sample(range(len(self.examples)), len(self.examples))
        for start in range(0, len(order), POOL):
            pool = [
                planter.plant(self.examples[i], random.Random(f"{self.options.seed} {epoch} {i}"))
                for i in order[start : start + POOL]
            ]
            found = batches(sorted(pool, key=lambda t: len(t.ids)), self.options.batch_tokens)
            rng.shuffle(found)
            yield from found

    def _save(self) -> None:
        """Write state, adapter and plot; a run continues from the state, which appears in one rename."""
        out, options = self.options.out, self.options
        tensors = {f"weight {name}": p.detach() for name, p in self.parameters.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{key} {name}"] = value
        tensors["position"] = torch.tensor([self.step, self.tokens])
        tensors = {key: value.to("cpu").contiguous() for key, value in tensors.items()}
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()}
        position = {"step": self.step, "tokens": self.tokens, "options": settings}
        (out / "state.json").write_text(json.dumps(position, indent=2) + "\n", encoding="utf-8")
        save_file(tensors, out / "state.part")
        (out / "state.part").replace(out / "state.safetensors")
        self._save_adapter("adapter")
        plot(out / "log.jsonl", out / "loss.png")

    def _save_adapter(self, name: str) -> None:
        shape = {name: getattr(self.options, name) for name in ("rank", "alpha", "turns")}
        lora.save(self.lm.model, self.options.out / name, **shape, base=self.options.model)

    def _restore(self) -> None:
        """Continue from the checkpoint, if there is one; log lines after it are dropped."""
        path = self.options.out / "state.safetensors"
        if not path.exists():
            return
        known = json.loads((self.options.out / "state.json").read_text("utf-8"))["options"]
        if changed := [n for n in SHAPE if str(known[n]) != str(getattr(self.options, n))]:
            raise SystemExit(
                f"{self.options.out} holds a run with other options: "
                f"{', '.join(f'{name}={known[name]}' for name in changed)}; pass the same, or "
                "another --out"
            )
        tensors = load_file(path)
        self.step, self.tokens = (int(x) for x in tensors.pop("position"))
        for key, value in tensors.items():
            which, name = key.split(" ", 1)
            parameter = self.parameters[name]
            if which == "weight":
                parameter.data.copy_(value)
            else:
                place = "cpu" if which == "step" else parameter.device
                self.optimizer.state[parameter][which] = value.to(place)
        log = self.options.out / "log.jsonl"
        lines = log.read_text("utf-8").splitlines(keepends=True)
        log.write_text("".join(lines[: self.step]), encoding="utf-8")


def rate(done: float) -> float:
    """Warm-up, a plateau, and a linear decay, as a factor.

    On the plateau `--tokens` may be changed at a restart: a run can be made longer or cut short.
    """
    decay = (1 - done) / DECAY
    return max(FINAL_RATE, min(1.0, done / WARM_UP + 0.1, decay))


def attention_kernel(lm: HuggingFaceLM) -> AbstractContextManager[None]:
    """Plain products on a CPU: for short trees a tenth faster than the fused kernel."""
    return sdpa_kernel(SDPBackend.MATH) if lm.model.device.type == "cpu" else nullcontext()


def batches(trees: Sequence[Tree], limit: int) -> list[list[Tree]]:
    """Neighbours together, as many as fit into `limit` tokens with their padding."""
    found: list[list[Tree]] = [[]]
    for tree in trees:
        if found[-1] and (len(found[-1]) + 1) * max(len(tree.ids), len(found[-1][-1].ids)) > limit:
            found.append([])
        found[-1].append(tree)
    return found


if __name__ == "__main__":
    main()
