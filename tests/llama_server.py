"""A real llama.cpp server, in a process of its own, over a tiny model with random weights.

Such a model talks nonsense; a grammar in the request makes it say a certain text: `saying("Yes [1]")`.
`HWDAG_GGUF` names the file of another model.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np
from processes import program

CONTEXT = 4096  # tokens; the tiny model has one per byte
KEY = "a-key-of-the-test"
WIDTH, HIDDEN, HEADS = 32, 64, 2
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"

SERVING = """
    import sys
    import xllamacpp

    path, key, context = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, int(context), 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [key] if key else []
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()  # until the test closes it
"""


@contextmanager
def llama_server(model: Path, *, key: str = "", context: int = CONTEXT) -> Iterator[str]:
    """Serve a GGUF file until the end of the block; yields the address of the API."""
    process = subprocess.Popen(
        **program(SERVING, model, key, context),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "llama.cpp did not start"
        yield f"{address}/v1"
    finally:
        process.kill()
        process.communicate()


def gguf_model(folder: Path) -> Path:
    """Return the file that `HWDAG_GGUF` names, else a tiny random one in this folder."""
    named = os.environ.get("HWDAG_GGUF")
    return Path(named) if named else written(folder / "tiny.gguf")


def saying(text: str) -> Mapping[str, str]:
    """Fields of a request that make any model of llama.cpp reply with this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return {"grammar": f'root ::= "{escaped}"'}


def written(path: Path) -> Path:
    """Write a GGUF file: a llama of one layer, a token per byte, random weights."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    kinds = gguf.TokenType
    named = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    tokens = named + [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    chance = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        "output": (len(tokens), WIDTH),
        **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (HIDDEN, WIDTH),
        "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", chance.normal(0, 0.02, shape).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
