# Each target sets up .venv by itself from python3 + pip only.
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
  EXE := .exe
else
  BIN := .venv/bin
endif
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo quick test test-all check bench soak fuzz oldest docs site clean help
.DEFAULT_GOAL := help

# One worker per core, one file per worker: tests of a file share what is slow to set up
PYTEST := python -m pytest -n auto --dist loadfile
# Needs no PyTorch, browser, data set or server, even where they are there
PORTABLE := not slow and not data and not postgres and not browser and not torch
# In one process of Python: no cluster, no commands in processes of their own
QUICK := $(PORTABLE) and not medium and not distributed
# The pages show what the newest NumPy prints
OLDEST_SCOPE := tests --ignore=tests/docs -m "$(PORTABLE)"

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/.core  ## audit the built-in example data: a table, a verdict and a page to open
	@$(BIN)/equipoise demo
	@echo; echo "Next, on a table of yours (columns: user, item and, if there is one, a value):"
	@echo "  $(BIN)/equipoise audit plays.csv"
	@echo "or, to type just equipoise:  source $(BIN)/activate"

quick: .venv/.dev  ## run the fast tests: at every save, under a minute
	$(BIN)/$(PYTEST) -q -m "$(QUICK)"

test: .venv/.dev  ## run the tests that need nothing but Python: before every change, some minutes
	$(BIN)/$(PYTEST) -m "$(PORTABLE)"

test-all: .venv/.dev  ## run every test; EQUIPOISE_DATA and the like add to them (CONTRIBUTING.md)
	$(BIN)/$(PYTEST)

check: .venv/.dev  ## lint, format and strict type check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.dev  ## measure speed beside the peers; results in benchmarks/results
	$(BIN)/python benchmarks/bench_fit.py --quick
	$(BIN)/python benchmarks/bench_scaling.py --quick
	$(BIN)/python benchmarks/bench_evaluate.py --quick
	$(BIN)/python benchmarks/bench_recommend.py --quick
	$(BIN)/python benchmarks/bench_read.py --quick
	$(BIN)/python benchmarks/bench_start.py --quick
	$(BIN)/python benchmarks/bench_audit.py --quick
	$(BIN)/python benchmarks/bench_distributed.py --quick

soak: .venv/.dev  ## work for an hour in one process: answers checked, memory watched
	$(BIN)/python -m tests.soak.run --minutes 60 --out tests/soak/results.json

fuzz: .venv/.dev  ## try every way in with some thousand inputs (fuzz/README.md)
	$(BIN)/python fuzz/run.py all --inputs 5000

oldest: .venv-oldest/.ready  ## run the core's tests with the oldest dependencies allowed
	$(subst .venv,.venv-oldest,$(BIN))/$(PYTEST) $(OLDEST_SCOPE)

docs: site  ## build the documentation into site/, and test it
	$(BIN)/$(PYTEST) -q tests/docs # runs every code block, checks every link

site: .venv/.docs  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean:  ## remove the environment and everything built
	rm -rf .venv .venv-oldest .venv-bootstrap site build dist

# `venv` is missing on some Debian machines: virtualenv, unpacked beside us, stands in.
$(BIN)/python$(EXE):
	@echo "Setting up .venv (once, about a minute) ..."
	@$(PYTHON) -m venv .venv 2>/dev/null || { rm -rf .venv; \
	  $(PYTHON) -m pip install --quiet --target .venv-bootstrap virtualenv && \
	  PYTHONPATH=.venv-bootstrap $(PYTHON) -m virtualenv --quiet .venv; }

.venv/.core: pyproject.toml | $(BIN)/python$(EXE)
	@echo "Installing equipoise ..."
	@$(PIP) --editable .
	@touch $@

.venv/.dev: pyproject.toml | $(BIN)/python$(EXE)
	@echo "Installing equipoise with its development tools ..."
	@$(PIP) --editable ".[dev]"
	@touch $@ .venv/.core

.venv/.docs: .venv/.dev
	@echo "Installing what builds the documentation ..."
	@$(PIP) --editable ".[dev,docs]"
	@touch $@

.venv-oldest/.ready: .ci/oldest.txt
	@echo "Setting up .venv-oldest with the oldest versions that pyproject.toml allows ..."
	@$(PYTHON) -m venv .venv-oldest
	@$(subst .venv,.venv-oldest,$(BIN))/python -m pip install --quiet --disable-pip-version-check \
	  --constraint .ci/oldest.txt --editable ".[sql,zstd,sdp,als,plot,datasets,ann,dask]" \
	  hypothesis pandas pyarrow pytest pytest-xdist
	@touch $@
