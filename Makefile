# Two commands do everything on a machine that has Python 3.11 or newer:
#   make demo   creates .venv, installs rlvitals, diagnoses the failing example run, writes demo-report.html
#   make test   creates .venv, installs what the tests need, runs the whole suite

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SHARED ?= $(or $(RLVITALS_SHARED),../shared)
export OMP_NUM_THREADS ?= 1

.PHONY: help setup demo test lint format types docs bench clean
.DEFAULT_GOAL := help

help:  ## show the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "rlvitals needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements/torch.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --requirement requirements/torch.txt
	$(BIN)/python -m pip install --quiet --editable '.[test,oracles,dev]'
	@touch $@ $(VENV)/.installed

setup: $(VENV)/.installed-dev  ## create .venv with everything that development needs

demo: $(VENV)/.installed  ## diagnose the failing example run and write demo-report.html
	$(BIN)/rlvitals demo --out demo-report.html

test: $(VENV)/.installed-dev  ## run the whole test suite
	$(BIN)/python -m pytest $(PYTEST)

lint: $(VENV)/.installed-dev  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev  ## ruff: repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev  ## mypy, strict
	$(BIN)/mypy

docs: $(VENV)/.installed-dev  ## write the generated pages of docs/ and README.md anew
	$(BIN)/python tools/docs.py
	$(BIN)/python tools/chapter7.py
	$(BIN)/python tools/readme.py

bench: $(VENV)/.installed-dev  ## speed on synthetic runs; verdicts on real runs where ../shared is there
	$(BIN)/python benchmarks/speed.py
	if [ -d "$(SHARED)/corpus" ]; then $(BIN)/python benchmarks/real_runs.py "$(SHARED)/corpus"; fi

clean:  ## remove .venv and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache demo-report.html
