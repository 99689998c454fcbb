"""Look for inputs that break a property of hypothesis, guided by the code that they reach.

For example, for a minute: `python tests/fuzz/guided.py test_properties test_any_page_is_read_or_refused -max_total_time=60`.
Further options are libFuzzer's; a folder among them keeps the corpus.
"""

import sys
from importlib import import_module
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("core", ".", "tests", "tests/hwdag")]
# why: by default inputs begin with a few bytes and grow slowly, which make hardly any example
OPTIONS = ["-len_control=0", "-max_len=4096", "-rss_limit_mb=4096", "-timeout=10"]

if __name__ == "__main__":
    module, test, *options = sys.argv[1:]
    reached = ("hwdag.text", "hwdag.store.records", "hwdag.store.calls", "hwdag.filters", "bs4")
    with atheris.instrument_imports(include=list(reached)):
        checked = getattr(import_module(module), test)
    atheris.Setup([sys.argv[0], *OPTIONS, *options], checked.hypothesis.fuzz_one_input)
    atheris.Fuzz()
