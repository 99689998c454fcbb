#!/usr/bin/env bash
# llama.cpp's server in xllamacpp 2026.10.11549, asked through OpenAI's API (2026-11-29)
# Expected: `usage` counts the tokens of all `choices`, as OpenAI's own server does, `max_tokens=0` writes
#   nothing, and after a last message of the assistant the model writes another one.
# Seen: with n=3 `completion_tokens` is that of one choice. `max_tokens=0` writes a token. A last message
#   of the assistant is not answered but continued, and its text begins the reply.
# Costs: budgets and prices that are counted by `usage` are a third of what was computed; a probe that
#   should only read a prompt decodes, too; a dialogue whose last turn is an example is echoed.
. "$(dirname "$0")/lib/setup.sh" xllamacpp==2026.10.11549 gguf==0.19.0
python - 2>/dev/null <<'PY'
import json, time, urllib.error, urllib.request

import gguf
import numpy as np
import xllamacpp
from still import still

W, H = 32, 64  # a random llama of one layer, a token per byte
writer = gguf.GGUFWriter("tiny.gguf", "llama")
writer.add_context_length(512), writer.add_embedding_length(W), writer.add_block_count(1)
writer.add_feed_forward_length(H), writer.add_head_count(2), writer.add_layer_norm_rms_eps(1e-5)
tokens = [("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"<0x{byte:02X}>", 6) for byte in range(256))]
writer.add_tokenizer_model("llama"), writer.add_token_list([text for text, _ in tokens])
writer.add_token_scores([0.0] * 259), writer.add_token_types([kind for _, kind in tokens])
writer.add_bos_token_id(1), writer.add_eos_token_id(2)
writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
shapes = {"token_embd": (259, W), "output": (259, W), "blk.0.ffn_gate": (H, W), "blk.0.ffn_up": (H, W),
          "blk.0.ffn_down": (W, H), **{f"blk.0.attn_{name}": (W, W) for name in ("q", "k", "v", "output")}}
for name, shape in shapes.items():
    drawn = np.random.default_rng(0).normal(0, 0.02, shape)
    writer.add_tensor(f"{name}.weight", drawn.astype(np.float32))
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    writer.add_tensor(f"{name}.weight", np.ones(W, np.float32))
writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = "tiny.gguf", 1536, 3
params.hostnames, params.port, params.verbosity = ["127.0.0.1"], 0, 0
server = xllamacpp.Server(params)


def ask(*messages: tuple[str, str], **options: object) -> dict:
    body = {"messages": [{"role": role, "content": text} for role, text in messages], **options}
    body["grammar"] = 'root ::= "0123456789"'
    url = f"{server.listening_address}/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    for seconds in range(20):
        try:
            return json.load(urllib.request.urlopen(request))
        except urllib.error.HTTPError:  # 503 until the model is loaded
            time.sleep(seconds)


found = ask(("user", "x"), n=3, max_tokens=5)
still((len(found["choices"]), found["usage"]["completion_tokens"]), (3, 5), "choices of 5 tokens, and usage")
for messages, limit, seen in ((("user", "x"),), 0, "0"), ((("assistant", "An example."),), 5, "An example.01234"):
    found = ask(*messages, max_tokens=limit)
    still(found["choices"][0]["message"]["content"], seen, f"reply of {limit} tokens")
PY
