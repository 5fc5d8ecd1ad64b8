# Every target sets up .venv by itself; when nothing changed that costs one stat.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
READY := $(VENV)/.develop
LISTS := .github/requirements
TRAINERS := 'trl>=1.16,<2' 'torch>=2.8'
COMPILE := $(VENV)/lock/bin/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate --universal --python-version 3.11

.DEFAULT_GOAL := help
.PHONY: help night site test lint bench train pictures docs torture test-after-merge lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

night: $(READY) ## run the whole loop once, with no key if none is set
	@$(PY) -m meta.night

site: $(READY) ## build the pages about all of it, and show them
	@$(PY) -m meta.dashboard --open

test: $(READY) lint ## everything that has to hold: lint, types, layers, tests
	@$(PY) -m pytest -n auto

lint: $(READY) ## ruff, mypy --strict, import-linter
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports

bench: $(READY) ## the measured figures, each beside a plain reference in the same run
	@$(PY) -m tests.bench

pictures: $(READY) ## draw the README's pictures anew, after a night in a scratch clone
	@$(PY) -m tests.pictures

docs: $(READY) ## write .github/COMMANDS.md anew: what every script says under --help
	@$(PY) -m tests.commands

torture: $(READY) ## try to break it: kills, broken files, full disks, hostile code; half an hour
	@$(PY) -m tests.torture

test-after-merge: $(READY) ## make test in scratch clones, after nights were merged, reverted, cleared; slow
	@$(PY) -m tests.after_merge

train: $(READY) ## three steps each of SFT, DPO and GRPO on exported batches, with TRL; installs torch
	@$(PIP) $(TRAINERS)
	@$(PY) -m tests.train

lock: ## renew the lists of pinned packages from pyproject.toml
	@$(PYTHON) -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	@mkdir -p $(LISTS)
	@$(COMPILE) pyproject.toml -o $(LISTS)/run.txt
	@$(COMPILE) --constraints $(LISTS)/run.txt --group publish -o $(LISTS)/publish.txt
	@$(COMPILE) --constraints $(LISTS)/run.txt pyproject.toml --group dev -o $(LISTS)/develop.txt
	@{ echo "# Ratchet and what it runs on; made by make lock. The same with hashes, and shorter lists: $(LISTS)/"; \
	  echo "--editable ."; sed -n 's/^\([a-z].*==[^\\]*[^ \\]\).*/\1/p' $(LISTS)/run.txt; } > requirements.txt

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

# One rule for the three lists; what is developed here is also installed, so that `python eval/harness.py` works.
$(VENV)/.%: $(LISTS)/%.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ratchet needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Setting up $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r $<
	@[ $* != develop ] || $(PIP) --no-deps --no-build-isolation --editable .
	@$(PY) -m compileall -q agents eval meta telemetry  # as pip does with what it installs: the first night is no slower
	@touch $@
