# Every target installs what it needs into a virtual environment in this checkout.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOUR := $(VENV)/.tour
DEMO_EXTRAS := tour,loops
JOBS_MAX ?= 4

.DEFAULT_GOAL := help
.PHONY: help setup demo test simulate mutants fuzz kills bucket check format bench compare docs clean

help:
	@echo "make demo      prove, run and audit in a few minutes; writes report.html"
	@echo "make test      run all tests that need only Python"
	@echo "make simulate  run the Kabis simulations and damaged messages, ten times as many"
	@echo "make mutants   check 100,000 models with mistakes in them: each gets a verdict or is refused"
	@echo "make fuzz      compare 10,000 random models of CSP# and of timed automata with oracles"
	@echo "make kills     run real Kabis clusters through 200 rounds of kill -9"
	@echo "make bucket    audit a bucket of 50 million events: 4 GB on disk, 8 GB of memory"
	@echo "make check     check format, lint, types, layers and house rules"
	@echo "make format    format the code and fix what the linter can fix"
	@echo "make bench     run the comparisons with SPIN and TLC"
	@echo "make compare   compare the speed of this checkout with that of the commit BASE"
	@echo "make docs      build the documentation site into site/"
	@echo "make setup     create only the virtual environment .venv/"

setup: $(READY)

define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is required; set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
	@touch $@
endef

$(READY): pyproject.toml
	$(call install,dev)

# Only what the demo needs, including Java: newcomers wait for this install.
$(TOUR): pyproject.toml
	$(call install,$(DEMO_EXTRAS))

demo: $(TOUR)
	$(BIN)/veristream tour --models models --html report.html

test: $(READY)
	$(BIN)/python -m pytest -q -m "not long and not models and not peers and not spark and not brokers" -n auto --dist loadgroup --maxprocesses $(JOBS_MAX) --durations=15

simulate: $(READY)
	VERISTREAM_SEEDS=2000 $(BIN)/python -m pytest -q tests/kabis/simulation tests/kabis/fuzz tests/kabis/ordering/test_explore.py -n auto --maxprocesses $(JOBS_MAX)

mutants: $(READY)
	VERISTREAM_MUTANTS=100000 $(BIN)/python -m pytest -q tests/mutants -n auto --maxprocesses $(JOBS_MAX)

fuzz: $(READY)
	VERISTREAM_FUZZ=10000 $(BIN)/python -m pytest -q tests/fuzz -n auto --maxprocesses $(JOBS_MAX)

kills: $(READY)
	VERISTREAM_KILL_ROUNDS=200 $(BIN)/python -m pytest -q tests/kabis/kills --log-cli-level=INFO

bucket: $(READY)
	VERISTREAM_BUCKET_EVENTS=50000000 $(BIN)/python -m pytest -q tests/unit/history/job/test_one_partition.py -k verdict_is_right

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
	set -e; for bench in $(filter-out bench/compare.py,$(wildcard bench/[a-z]*.py)); do $(BIN)/python $$bench $(BENCH_FLAGS); done

compare: $(READY)
	$(if $(BASE),,$(error say which commit to compare with: make compare BASE=COMMIT))
	$(BIN)/python bench/compare.py $(BASE) $(BENCH_FLAGS)

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
