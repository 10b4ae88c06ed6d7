# Everything here needs only make and a Python from 3.11 on: `make PYTHON=/path/to/python3`.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help install lock hooks run test test-all check lint format types contracts docs changelog picture generated screenshot bench soak fuzz voice clean

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
VOICE_READY := $(VENV)/.installed-voice
LOCK := requirements.lock
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint $(LOCK) --editable
NODE_SERVER := @modelcontextprotocol/server-everything

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## sets up .venv with all that the other targets need
	@echo "Installed in $(VENV); the program is $(BIN)/leonidas"

# Needs no installation of today's pyproject.toml: the present lock may contradict it.
lock:  ## writes the lock of all dependencies; ARGS=--upgrade takes the newest releases
	@test -x $(BIN)/uv || $(MAKE) install
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --all-extras --python-version 3.11 \
		--no-header --no-annotate --output-file $(LOCK) $(ARGS)

hooks: $(READY)  ## has git run the checks of style before a commit, and types and contracts before a push
	$(BIN)/pre-commit install

# Where there is Node, a second scenario is played with an MCP server written for it.
run: $(READY)  ## a session with tools: simulated, or real with GEMINI_API_KEY
	@if [ -z "$$GEMINI_API_KEY$$GOOGLE_API_KEY" ] && [ ! -f .env ] && command -v npx >/dev/null 2>&1 \
		&& echo "Fetching $(NODE_SERVER), since there is Node" \
		&& npx --yes --package $(NODE_SERVER) true 2>/dev/null; \
	then LEONIDAS_EVERYTHING=true $(BIN)/leonidas run demo policies tools_change everything; \
	else $(BIN)/leonidas run; fi

# Each of the many processes that the tests start would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE
# Four workers more than there are cores, since many tests wait for other processes.
PYTEST_WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 4)))
PARALLEL := $(BIN)/pytest --quiet --numprocesses $(PYTEST_WORKERS) --dist worksteal

test: $(READY)  ## the tests, but for slow ones that no promise rests on, with fewer examples; ARGS='-k cancel' selects
	$(PARALLEL) -m 'not slow' --hypothesis-profile quick $(ARGS)

test-all: $(VOICE_READY)  ## all tests, as CI runs them; downloads about 620 MB the first time
	$(PARALLEL) $(ARGS)

check: lint types contracts test-all  ## all that CI checks

lint: $(READY)  ## style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(READY)  ## repairs style and format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(READY)  ## types, strictly: of the package, and of a program that uses it
	$(BIN)/mypy
	$(BIN)/mypy tests/package/typing_api.py

contracts: $(READY)  ## who may import whom
	$(BIN)/lint-imports

# In a directory of its own, for Zensical caches beside its settings, where tests keep downloads.
docs: $(READY)  ## builds the documentation in build/docs
	@rm -rf build/docs build/pages && mkdir -p build/pages && cp -RL docs zensical.toml build/pages
	cd build/pages && $(CURDIR)/$(BIN)/zensical build --strict
	@mv build/pages/build/docs build/docs && rm -rf build/pages

changelog: $(READY)  ## prints the next section of the changelog, from changelog.d
	$(BIN)/towncrier build --draft --version next

picture: $(READY)  ## draws the rooms of the architecture from the code
	$(BIN)/python -m tests.docs.rooms

generated: $(READY)  ## writes all that is made from the code: tables of the docs, the picture, the schema
	$(BIN)/python -m tests.docs.settings_tables
	$(BIN)/python -m tests.docs.api_tables
	$(BIN)/python -m tests.docs.rooms
	$(BIN)/leonidas config schema > config/tools.schema.json

screenshot: $(READY)  ## takes the pictures of the console
	$(BIN)/python -m tests.console.pictures

bench: $(READY)  ## what a call costs; writes the page Benchmarks
	$(BIN)/python -m tests.benchmarks --write

soak: $(READY)  ## 200 conversations for 10 minutes while all fails; ARGS='--minutes 2' is shorter
	$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(READY)  ## 100,000 generated sessions in virtual time; what is done is kept in build/fuzz.sqlite
	$(BIN)/python -m tests.live.generated $(ARGS)

voice: $(VOICE_READY)  ## the test through real speech; downloads about 280 MB the first time
	$(BIN)/pytest tests/voice

clean:  ## removes .venv and all that was made
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is made last: what was interrupted begins anew.
$(READY): pyproject.toml $(LOCK)
	@set -e; \
	new_enough() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; \
	python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
		for found in python3 python3.13 python3.12 python3.11; do \
			if new_enough $$found; then python=$$found; break; fi; \
		done; \
	fi; \
	if [ -z "$$python" ] || ! new_enough "$$python"; then \
		echo "There is no Python from 3.11 on: install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
		package=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing $$package, which $$python lacks"; \
			apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $$package; \
		else \
			echo "$$python cannot make environments: install $$package (apt-get install $$package)" >&2; exit 1; \
		fi; \
	fi; \
	echo "Setting up $(VENV) with $$("$$python" --version); this takes some minutes, in which pip prints nothing"; \
	if [ ! -x $(BIN)/python ]; then "$$python" -m venv $(VENV); fi; \
	$(INSTALL) '.[dev]'; \
	touch $@

$(VOICE_READY): $(READY)
	@echo "Installing a voice and a speech recogniser for the tests, about 280 MB"
	$(INSTALL) '.[dev,voice-test]'
	touch $@
