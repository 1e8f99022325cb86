# Two commands do everything on a fresh machine with python3, make and pip:
#   make demo    make test
# and a third builds the documentation site: make docs
# Each makes .venv on its first run and is quick afterwards.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests and experiments look for graphs here, and in the user's cache.
export GRAPHTEMPER_DATA ?= $(abspath ../shared/data):$(abspath ../shared/data/natural)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo docs locked audit faults mutation test lint types unit browser slow paper bench scaling clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[plots,report]'
	@touch $@

# torch first, at the version of the constraints: asked for by another package, pip may take a newer
# build with gigabytes of CUDA libraries.
$(VENV)/.test: pyproject.toml research/pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[test]' --editable ./research
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.test
	$(PIP) --editable '.[bench]'
	@touch $@

# The same packages by their checksums, in a venv of their own: nothing is resolved, nothing unknown
# is installed. scripts/lock.py writes the lock.
locked:
	$(PYTHON) -m venv .venv-locked
	.venv-locked/bin/python -m pip install --quiet --require-hashes --no-deps --requirement requirements-test.lock
	.venv-locked/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable ./research

# Known vulnerabilities of everything in the lock. Needs the network, and fails where it has none.
audit: | $(BIN)/python
	$(PYTHON) -m venv .venv-audit
	$(BIN)/python scripts/audit.py .venv-audit/bin/python

# Kill commands, fill disks, stop and double them: the longer form of tests/test_faults.py.
faults: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/faults.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/hardship.py

# Change the core in small ways and list what no test notices, in about an hour. cosmic-ray makes the
# changes, at one version, as a sample is only the same with the same list of changes.
mutation: $(VENV)/.test
	$(PYTHON) -m venv .venv-mutation
	.venv-mutation/bin/python -m pip install --quiet --disable-pip-version-check cosmic-ray==8.7.0
	OPENBLAS_NUM_THREADS=1 .venv-mutation/bin/python -u scripts/mutation.py $(BIN)/python

# The browser tests drive Debian's Chromium. Where it is missing and may not be installed, they are
# skipped with a reason.
$(VENV)/.chromium: scripts/install_chromium.sh | $(BIN)/python
	-@[ "$$(id -u)" -ne 0 ] || sh scripts/install_chromium.sh
	@touch $@

# The API pages import everything, so this needs what the tests need.
docs: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet \
		--builder html --doctree-dir docs/_build/doctrees docs docs/_build/html
	@echo "Start page: docs/_build/html/index.html"

demo: $(VENV)/.demo
	$(BIN)/graphtemper demo

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.test
	$(BIN)/mypy

# Two workers, whole files each, so that what a file's tests share is made once.
unit: $(VENV)/.test $(VENV)/.chromium docs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' -n 2 --dist loadfile

browser: $(VENV)/.test docs
	sh scripts/install_chromium.sh
	$(BIN)/python -m pytest tests/browser

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

paper: $(VENV)/.test
	$(BIN)/graphtemper paper all --out docs/results --results docs/results.md

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run

scaling: $(VENV)/.test
	$(BIN)/python -m benchmarks.scaling

clean:
	rm -rf $(VENV) .venv-locked .venv-audit .venv-mutation artifacts docs/_build docs/_generated docs/api/generated
