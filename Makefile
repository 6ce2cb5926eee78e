# Each target sets up .venv by itself from python3 + pip only.
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
  BIN := .venv/Scripts
  EXE := .exe
else
  BIN := .venv/bin
endif
# Half of the time of `make quick` is compilation of Python files, which their cache saves
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo quick test test-all check bench soak fuzz oldest adapters docs site dist clean help
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

# make bench BENCH=--full measures every cell, in some hours
BENCH ?= --quick --out

bench: .venv/.dev  ## measure speed, in about ten minutes, and print every goal with its verdict
	$(BIN)/python benchmarks/bench_fit.py $(BENCH)
	$(BIN)/python benchmarks/bench_scaling.py $(BENCH)
	$(BIN)/python benchmarks/bench_evaluate.py $(BENCH)
	$(BIN)/python benchmarks/bench_tune.py $(BENCH)
	$(BIN)/python benchmarks/bench_audit.py $(BENCH)
	$(BIN)/python benchmarks/bench_read.py $(BENCH)
	$(BIN)/python benchmarks/bench_start.py $(BENCH)
	$(BIN)/python benchmarks/bench_serve.py $(BENCH)
	$(BIN)/python benchmarks/goals.py --out

soak: .venv/.dev  ## work for an hour in one process: answers checked, memory watched
	$(BIN)/python -m tests.soak.run --minutes 60 --out tests/soak/results.json

fuzz: .venv/.dev  ## try every way in with some thousand inputs (fuzz/README.md)
	$(BIN)/python fuzz/run.py all --inputs 5000

oldest: .venv-oldest/.ready  ## run the core's tests with the oldest dependencies allowed
	$(subst .venv,.venv-oldest,$(BIN))/$(PYTEST) $(OLDEST_SCOPE)

adapters: .venv-lenskit/.ready .venv-rectools/.ready  ## test the adapters in pipelines of LensKit and RecTools
	$(subst .venv,.venv-lenskit,$(BIN))/python -m pytest tests/serving/test_lenskit.py tests/reranking/test_lenskit_fair.py
	$(subst .venv,.venv-rectools,$(BIN))/python -m pytest tests/serving/test_rectools.py

docs: site  ## build the documentation into site/, and test it
	$(BIN)/$(PYTEST) -q tests/docs # runs every code block, checks every link

site: .venv/.docs  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

dist:  ## build wheel and sdist into dist/, install the wheel in a clean environment, run the demo there
	rm -rf dist .venv-dist
	$(call new-environment,.venv-dist)
	$(subst .venv,.venv-dist,$(PIP)) build
	$(subst .venv,.venv-dist,$(BIN))/python -m build --outdir dist
	rm -rf .venv-dist
	$(call new-environment,.venv-dist)
	$(subst .venv,.venv-dist,$(PIP)) dist/*.whl
	cd dist && ../$(subst .venv,.venv-dist,$(BIN))/equipoise demo
	ls -l dist/*.whl dist/*.tar.gz dist/report/demo.html

clean:  ## remove the environment and everything built
	rm -rf .venv .venv-* site build dist

# `venv` is missing on some Debian machines: virtualenv, unpacked in .venv-bootstrap, replaces it.
define new-environment
@$(PYTHON) -m venv $(1) 2>/dev/null || { rm -rf $(1); \
  $(PYTHON) -m pip install --quiet --upgrade --target .venv-bootstrap virtualenv && \
  PYTHONPATH=.venv-bootstrap $(PYTHON) -m virtualenv --quiet $(1); }
endef

$(BIN)/python$(EXE):
	@echo "Setting up .venv (once, about a minute) ..."
	$(call new-environment,.venv)

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

# Each in its own environment: RecTools requires NumPy 1, LensKit PyTorch (TORCH=torch==X pins it)
.venv-%/.ready: pyproject.toml
	@echo "Setting up .venv-$* ..."
	@$(PYTHON) -m venv .venv-$*
	@$(subst .venv,.venv-$*,$(PIP)) $(if $(filter lenskit,$*),$(TORCH)) --editable ".[$*]" \
	  hypothesis pandas pytest pytest-xdist
	@touch $@
