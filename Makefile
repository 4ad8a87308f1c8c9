# Every target sets up what it needs, in a virtual environment of this checkout's own.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOUR := $(VENV)/.tour
JOBS_MAX ?= 4

.DEFAULT_GOAL := help
.PHONY: help setup demo test simulate kills check format bench docs clean

help:
	@echo "make demo    prove, run and audit in a few minutes; leaves report.html"
	@echo "make test    all tests that need nothing but Python"
	@echo "make simulate  Kabis under ten times as many seeds of faults"
	@echo "make kills   Kabis clusters of real processes under 200 rounds of kill -9"
	@echo "make check   format, lint, types, layers, house rules"
	@echo "make format  rewrite the code as make check wants it"
	@echo "make bench   the comparisons with SPIN and TLC"
	@echo "make docs    the documentation site, into site/"
	@echo "make setup   the virtual environment alone, into .venv/"

setup: $(READY)

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
	@touch $@
endef

$(READY): pyproject.toml
	$(call install,dev)

# What the demo needs and no more, a Java among it: who sees Veristream for the first time waits for this.
$(TOUR): pyproject.toml
	$(call install,tour)

demo: $(TOUR)
	$(BIN)/veristream tour --models models --html report.html

test: $(READY)
	$(BIN)/python -m pytest -q -m "not long and not models and not peers and not spark and not brokers" -n auto --dist loadgroup --maxprocesses $(JOBS_MAX)

simulate: $(READY)
	VERISTREAM_SEEDS=2000 $(BIN)/python -m pytest -q tests/kabis/simulation tests/kabis/ordering/test_explore.py -n auto --maxprocesses $(JOBS_MAX)

kills: $(READY)
	VERISTREAM_KILL_ROUNDS=200 $(BIN)/python -m pytest -q tests/kabis/kills --log-cli-level=INFO

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src testing
	$(BIN)/lint-imports
	$(BIN)/python tools/tidy.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	set -e; for bench in bench/[a-z]*.py; do $(BIN)/python $$bench $(BENCH_FLAGS); done

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
