# Every target sets up .venv by itself; when nothing changed that costs one stat.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help night test lint bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

night: $(READY) ## run the whole loop once, with no key if none is set
	@$(PY) -m meta.night

test: $(READY) lint ## everything that has to hold: lint, types, layers, tests
	@$(PY) -m pytest -n auto

lint: $(READY) ## ruff, mypy --strict, import-linter
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports

bench: $(READY) ## the measured figures, each beside a plain reference in the same run
	@$(PY) -m tests.bench

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ratchet needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
