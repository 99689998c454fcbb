#!/usr/bin/env bash
# transformers 5.23.0, tokenizers 0.23.3 (2026-11-28)
# Expected: a fast tokenizer that two threads share either works or raises an error, as it did when
#   "Already borrowed" was the known complaint.
# Seen: a call with `truncation=True, max_length=8` sets the limit in the shared object, encodes,
#   and leaves it there; another thread's call without truncation is cut to 8 tokens if it comes in
#   between. No error, no warning: the reply is a list of 8 tokens in place of 810. Here about 1 call
#   of 100; in a server with a reranker or an embedder on the same tokenizer it depends on the load.
# Costs: now and then a document is embedded, counted or answered by its first words alone; it
#   cannot be repeated. A copy of the tokenizer for each thread (copy.deepcopy) is the way out.
. "$(dirname "$0")/lib/setup.sh" transformers==5.23.0 tokenizers==0.23.3
python - <<'PY' 2>/dev/null
import threading

from still import still
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
tokenizer.train_from_iterator(["The harbour was built in 1871. Words and words."] * 3)
shared = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
text = "The harbour was built in 1871. " * 100
whole = len(shared(text)["input_ids"])
stop = threading.Event()


def another() -> None:
    while not stop.is_set():
        shared("words " * 500, truncation=True, max_length=8)


thread = threading.Thread(target=another)
thread.start()
lengths: set[int] = set()
calls = 0
while len(lengths) < 2 and calls < 20_000:
    lengths.add(len(shared(text)["input_ids"]))
    calls += 1
stop.set()
thread.join()
still(lengths == {8, whole}, True, f"lengths of one text {lengths}, after {calls} calls")
PY
