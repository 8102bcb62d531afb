# `make demo` and `make test` set everything up themselves: a virtual environment, the build, the dependencies.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
NATIVE := $(shell find src -name '*.cpp' -o -name '*.hpp') CMakeLists.txt pyproject.toml

.PHONY: fuzz sanitize engines demo app test slow bench motion docs pictures wheels lint format clean help

help:
	@echo "make demo    the main job end to end on a small simulated study"
	@echo "make app     the whole way in a browser: from a table to a report"
	@echo "make test    the test suite; make slow: the tests that take long"
	@echo "make fuzz    damaged files, odd tables, numerical problems; make sanitize: the kernels under sanitisers"
	@echo "make engines the kernels' tests on the instruction sets of wheels that this build leaves out"
	@echo "make bench   the speed tables, as ratios"
	@echo "make motion  the paper's motion study, into results/"
	@echo "make docs    the documentation, into build/docs"
	@echo "make pictures  the pictures of README and docs, by chromium and matplotlib"
	@echo "make wheels  the source distribution and the wheels, checked and tried in empty environments, into dist/"
	@echo "make lint    ruff and mypy; make format rewrites the code's layout"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Installed in place, so that edits of Python code need no new build. The build tools go into the environment too: the
# compiled part is then rebuilt only where its sources changed. One line per file compiled or package fetched, instead of
# minutes of silence; all that was said is in the log.
LOG := build/install.log
comma := ,
define install
@mkdir -p build
@set -o pipefail; $(BIN)/python -m pip install --verbose --no-build-isolation --editable $(1) 2>&1 | tee $(LOG) \
  | while read -r step rest; do case "$$step $$rest" in \
      \[*/*\]*) rest=$${rest##* }; echo "  $$step $${rest#CMakeFiles/}" ;; \
      Collecting*) echo "  fetching $$rest" ;; \
      *error:*) echo "$$step $$rest" ;; \
    esac; done || { tail -n 40 $(LOG); exit 1; }
@touch $@
endef

$(PACKAGE): $(BIN)/python $(NATIVE)
	@echo "Compiling the kernels for this machine: about half a minute on two cores, once. Each step is counted."
	$(BIN)/python -m pip install --quiet scikit-build-core nanobind cmake ninja
	$(call install,.)

# What tests, linters and benchmarks need beyond that.
$(STAMP): $(PACKAGE)
	@echo "Installing what tests and documentation need, once."
	$(call install,".[dev]")

demo: $(PACKAGE)
	@$(BIN)/python -m vhem.demo

# The app, with what it needs beyond the package: the server, and readers of spreadsheets and Parquet.
APP := $(VENV)/.app
$(APP): $(PACKAGE)
	@echo "Installing what the app needs, once."
	$(call install,".[app$(comma)tables]")

app: $(APP)
	@$(BIN)/vhem app

# As many tests at a time as there are cores; a worker that is done takes tests over from another. `PYTEST` takes further options of pytest's.
PYTEST :=
RUN_TESTS = $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist worksteal
test: $(STAMP)
	$(RUN_TESTS) -m "not slow" $(PYTEST)

slow: $(STAMP)
	$(RUN_TESTS) -m slow $(PYTEST)

# Damaged files, odd tables and numerical problems, for so many seconds each; another SEED, other cases.
SECONDS_EACH := 600
SEED := 0
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS_EACH) --seed $(SEED)

# The kernels' tests under the address and undefined-behaviour sanitisers, built into build/sanitize.
sanitize: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" PYTHON=python .ci/kernels sanitize

# The kernels' tests on the instruction sets that wheels have and a build for this machine has not, into build/engines.
engines: $(STAMP)
	PATH="$(CURDIR)/$(BIN):$$PATH" PYTHON=python .ci/kernels engines --numprocesses logical --maxprocesses 8

# Tables on the screen and in results/; those of the documentation are in docs/results/.
BENCHMARKS := vhem_speed ppk_speed sequence_speed family_speed lds_speed table_reading tree_search scale
bench: $(STAMP)
	@mkdir -p results
	@set -e -o pipefail; for name in $(BENCHMARKS); do \
	  OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py | tee results/$$name.txt; done

motion: $(STAMP)
	$(BIN)/vhem experiment motion --out results

# The documentation, into build/docs; a warning is an error.
docs: $(STAMP)
	$(BIN)/python docs/list_messages.py
	$(BIN)/typer vhem.cli.main utils docs --name vhem --title "Options of the command" --output docs/generated/options.md
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

pictures: $(STAMP)
	$(BIN)/python docs/make_pictures.py

wheels:
	$(PYTHON) packaging/wheels.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
