# Every target sets up what it needs and no more: in a fresh clone `make demo` or `make test` is the only command.
# `make demo` and `make serve` need the packages that hwd itself needs; checks and tests those of developers, and programs to test against;
# `make test-all` also what makes virtual machines, and a browser. `make setup` is all of it but PyTorch.
# TESTS=tests/fabric runs a part of the tests; PYTEST_ARGS=-x goes to pytest.
# PYTHON=python3.13 takes that Python: 3.11, 3.12 and 3.13 can stand beside each other.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
# An environment belongs to one Python. Where .venv has another one than a PYTHON that was asked for, that one gets .venv-3.13 or the like.
version_of = $(shell $(1) -ISc 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
WANTED := $(call version_of,$(PYTHON))
OTHER := $(if $(filter file,$(origin PYTHON)),,$(filter-out $(call version_of,.venv/bin/python),$(WANTED)))
VENV := .venv$(if $(call version_of,.venv/bin/python),$(OTHER:%=-%))
BIN := $(VENV)/bin
# What is installed: what hwd needs (RUNTIME), and what checks and tests need besides (STAMP). Nothing is where a new release of Debian has put another
# Python behind the environment's.
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.set-up
HAS := $(call version_of,$(BIN)/python)
ANEW := $(if $(and $(HAS),$(wildcard $(VENV)/lib/python$(HAS))),,anew)
.PHONY: anew
PINS := pyproject.toml drivers/pyproject.toml agents/pyproject.toml constraints.txt
TESTS ?= tests
PYTEST_ARGS ?=
# Processes that share the tests, file by file, on two cores: three, as those of real racks and machines wait for a third of their time. WORKERS=0 runs them
# in one, as a debugger wants it.
WORKERS ?= 3
# Their temporary files are in memory where that has room, and those of tests that pass are gone at their end: on a disk, all takes a tenth longer.
MEMORY := $(shell awk '$$2 == "/dev/shm" && !/noexec/ { print $$2 }' /proc/mounts 2>/dev/null | xargs -r df -m --output=target,avail | awk 'NR == 2 && $$2 > 4000 { print $$1 }')
PYTEST = $(if $(MEMORY),TMPDIR=$${TMPDIR:-$(MEMORY)} )$(BIN)/pytest $(TESTS) $(if $(MEMORY),-o tmp_path_retention_policy=failed )-n $(WORKERS) --dist=loadfile --no-loadscope-reorder
TESTBED ?= examples/opus-testbed.yaml

# One line that counts, on a terminal; pip's own words only when it fails.
COUNT := awk -v tty="$$([ -t 2 ] && echo 1)" \
	'/^ *Collecting/ { n++; if (tty) { printf "\rsetup: %d packages", n; fflush() } } END { if (tty && n) print "" }'

# Debian keeps mosquitto and ip where an ordinary user's PATH does not look.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
# Also pins what builds the packages.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# Where it is set, each of the hundreds of processes that tests start would compile all our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:
	@echo "make demo      a twin rack and its main experiment, under a minute"
	@echo "make test      the tests; make test-all: those that take long too; make test-slow: those alone"
	@echo "make test-newest  a part of the tests with the newest supported Python of this machine, in an environment of its own"
	@echo "make test-torch  the backend of PyTorch, which it installs first"
	@echo "make check     format, lint, words of docstrings and names, types, import contracts"
	@echo "make bench     each path against its floor"
	@echo "make figures   sweeps behind figures of papers that need no rack"
	@echo "make sim       simulated worlds of SEEDS=10000 seeds, with all that can go wrong, against the rules"
	@echo "make mutants   small faults, planted one at a time: which of them no test finds"
	@echo "make crashes   KILLS=500 crashes of the real daemon, at the boundaries of its journal and at random"
	@echo "make docs      what the reference pages repeat of the code, anew"
	@echo "make serve     the daemon on $(TESTBED) (TESTBED=FILE for another)"
	@echo "make setup     all that any of them needs but PyTorch; each brings its own share by itself; make clean takes it away again"

.PHONY: setup
setup: $(STAMP) system-machines

# What builds our packages goes into the environment first: pip would fetch it anew for each of the three. Most modules of what is installed for the
# demo are never imported: those that are, Python compiles then.
PIP = $(BIN)/python -m pip install --progress-bar off
define install
	@[ -z "$(ANEW)" ] || { echo "setup: a virtual environment in $(VENV), of Python $(WANTED)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "setup: $(1)"
	@{ $(PIP) --no-compile 'hatchling>=1.26' editables && $(PIP) --no-build-isolation $(3) -e ./drivers -e ./agents -e '$(2)'; } \
		2>$(VENV)/pip-errors | $(COUNT) || { cat $(VENV)/pip-errors >&2; exit 1; }
endef

$(RUNTIME): $(PINS) $(ANEW) | system-runtime
	$(call install,the Python packages that hwd needs,.,--no-compile)
	@touch $@
	@echo "setup: done"

$(STAMP): $(PINS) $(ANEW) | system-runtime
	$(call install,the Python packages of constraints.txt (a minute or two the first time),.[dev],)
	@touch $(RUNTIME) $@
	@echo "setup: done"

# Debian's packages; looks each time, cheap when nothing is missing.
.PHONY: system-runtime system-tests system-machines
system-runtime system-tests system-machines: system-%:
	@PYTHON=$(PYTHON) .ci/system-packages $*

.PHONY: check
check: check-format check-lint check-words check-types check-contracts

# What takes least comes first.
.PHONY: check-format check-lint check-words check-types check-contracts
check-format: $(STAMP)
	@echo "check: format"; $(BIN)/ruff format --check --quiet .
check-lint: $(STAMP)
	@echo "check: lint"; $(BIN)/ruff check --quiet .
check-words: $(STAMP)
	@echo "check: words"; $(BIN)/python -m docs.generate.words
check-types: $(STAMP)
	@echo "check: types"; $(BIN)/mypy
check-contracts: $(STAMP)
	@echo "check: import contracts"; $(BIN)/lint-imports

.PHONY: format
format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: test
test: $(STAMP) system-tests
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

# Of the parts in which most of Python itself is seen: messages, texts, processes, kernels; with set-up within 4 minutes on two cores.
.PHONY: test-newest
test-newest: THAN = $(or $(HAS),$(WANTED))
test-newest:
	@newest=$$(.ci/newest-python $(THAN)) || exit; \
	if [ -n "$$newest" ]; then $(MAKE) --no-print-directory test PYTHON=$$newest TESTS="$(addprefix tests/,agents config drivers rollout twin)"; \
	else echo "test-newest: this machine has no Python newer than $(THAN) that hwd supports (pyproject.toml): nothing to test"; fi

.PHONY: test-all
test-all: $(STAMP) system-machines
	$(PYTEST) $(PYTEST_ARGS)

.PHONY: test-slow
test-slow: $(STAMP) system-machines
	$(PYTEST) -m slow $(PYTEST_ARGS) || [ $$? -eq 5 ]

# No part of CI: the first run records which test executes which line. MUTANTS_ARGS="--only hwd/jobs" hunts some of them; a run that was ended goes on.
.PHONY: mutants
mutants: $(STAMP) system-tests
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

# The CPU wheel of PyTorch, 200 MB, is for these tests alone; where it cannot be had they are skipped by name. One at a time: each has a rack of its own, and
# four processes that import it.
TORCH := torch==2.13.0+cpu
.PHONY: test-torch
test-torch: $(STAMP) system-tests
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo "setup: $(TORCH)"; $(PIP) --quiet '$(TORCH)' || \
		echo "setup: $(TORCH) cannot be had from where pip looks: see its index of CPU wheels, and PIP_EXTRA_INDEX_URL"; }
	$(BIN)/pytest tests/system/test_torch.py tests/system/test_torch_experts.py tests/test_private_names.py -k 'torch or shares' $(PYTEST_ARGS)

.PHONY: demo
demo: $(RUNTIME)
	@$(BIN)/hwd demo

.PHONY: bench
bench: $(STAMP)
	@$(BIN)/python -m bench

# Sweeps behind figures of papers that need no rack.
.PHONY: figures
figures: $(STAMP)
	@$(BIN)/python -m bench.figures

# Simulated worlds, one a seed: FIRST is the first seed.
SEEDS ?= 10000
FIRST ?= 0
.PHONY: sim
sim: $(STAMP)
	@$(BIN)/python -m hwd.sim.sweep --first $(FIRST) --seeds $(SEEDS)

# Crashes of the real daemon, on twins and a Mosquitto in processes of their own.
KILLS ?= 500
SEED ?= 1
.PHONY: crashes
crashes: $(STAMP) system-tests
	@$(BIN)/python -m hwd.testing.crashes --kills $(KILLS) --seed $(SEED)

# What docs/ repeats of the code, from the code.
.PHONY: docs
docs: $(STAMP)
	@$(BIN)/python -m docs.generate

.PHONY: serve
serve: $(RUNTIME)
	@$(BIN)/hwd serve $(TESTBED)

.PHONY: clean
clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
