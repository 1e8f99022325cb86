# On a fresh machine with python3, make and pip:
#   make demo    run the main job on an embedded graph
#   make check   check a change: style, types and the tests that it touches
#   make test    run all checks and tests, except those of `make nightly` and `make slow`
#   make docs    build the documentation site
# The first run of each creates .venv; later runs start at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := .venv-core
# Tests and experiments look for graphs in these folders and in the user's cache.
export GRAPHTEMPER_DATA ?= $(abspath ../shared/data):$(abspath ../shared/data/natural)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: check demo docs lock locked licences audit faults mutation test test-core lint types unit nightly browser slow paper bench evidence release-check scaling clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[plots,report]'
	@touch $@

# Everything comes from the lock by checksum, and nothing is resolved; then pip adds what the build of
# torch that it found needs besides, such as CUDA libraries. LOCKED=0 installs the versions of the
# constraints instead, where the lock has no file for the platform or the version of Python. There
# torch comes first: as a dependency of another package, pip may choose a newer build with gigabytes of
# CUDA libraries.
define install_locked
	$(1)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes \
		--requirement requirements-test.lock
	$(1)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(1)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--editable . --editable ./research
endef
LOCKED ?= 1
$(VENV)/.test: pyproject.toml research/pyproject.toml constraints.txt requirements-test.lock | $(BIN)/python
ifeq ($(LOCKED),0)
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[test]' --editable ./research
else
	$(call install_locked,$(BIN))
endif
	@touch $@ $(VENV)/.demo

# A venv without torch and without any extra, for the tests of the core.
$(CORE)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[test-core]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) --editable '.[bench]'
	@touch $@

# The lock, by uv. WHEELS names builds that are not on the package index, as one of torch for CPUs.
lock: | $(BIN)/python
	$(PIP) uv
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/lock.py $(WHEELS)

# The same packages in a separate venv, to try a new lock.
locked:
	$(PYTHON) -m venv .venv-locked
	$(call install_locked,.venv-locked/bin)
	.venv-locked/bin/python -m pip check

# docs/licences.md, from the metadata of what the tests install.
licences: $(VENV)/.test
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet pip-licenses
	(sed '/^|/,$$d' docs/licences.md; .venv-audit/bin/pip-licenses --python $(BIN)/python --from mixed --order name \
		--format markdown --ignore-packages graphtemper graphtemper-research pip setuptools wheel) > .venv-audit/page
	mv .venv-audit/page docs/licences.md

# Known vulnerabilities of the packages in the lock; fails also if one could not be looked up.
audit:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet pip-audit
	.venv-audit/bin/pip-audit --requirement requirements-test.lock --require-hashes --disable-pip --strict

# Kill and interrupt commands, run two at once, fill the disk: the long form of
# tests/project/test_faults.py.
faults: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/faults.py

# Change the core in small ways and list the changes that no test notices, in about an hour. The version
# of cosmic-ray is fixed, because the sample depends on the changes that it can make.
mutation: $(VENV)/.test
	$(PYTHON) -m venv .venv-mutation
	.venv-mutation/bin/python -m pip install --quiet --disable-pip-version-check cosmic-ray==8.7.0
	OPENBLAS_NUM_THREADS=1 .venv-mutation/bin/python -u scripts/mutation.py $(BIN)/python

# Chromium for the browser tests, which are skipped with a reason where it cannot be installed.
$(VENV)/.chromium: scripts/install_chromium.sh | $(BIN)/python
	-@[ "$$(id -u)" -ne 0 ] || sh scripts/install_chromium.sh
	@touch $@

# The API pages import every module, so this needs the packages of the tests.
docs: $(VENV)/.test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet \
		--builder html --doctree-dir docs/_build/doctrees docs docs/_build/html
	@echo "Start page: docs/_build/html/index.html"

demo: $(VENV)/.demo
	$(BIN)/graphtemper demo

# Style, layers, types and the tests of what differs from main: a minute and a half at most.
check: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/check.py

# Types and documentation beside each other; each of them uses one core.
test: lint
	$(MAKE) -j2 types docs
	$(MAKE) unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports

types: $(VENV)/.test
	$(BIN)/mypy

# Two workers. The tests of a file run on one of them, so that its fixtures are made once. Tests of the
# site are skipped where `make docs` has not run.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile
unit: $(VENV)/.test
	$(PYTEST) -m 'not slow and not nightly' --durations=30

# Hostile files, wheels, clusters, browsers and faults: what costs much and breaks rarely.
nightly: $(VENV)/.test $(VENV)/.chromium docs
	GRAPHTEMPER_FUZZ=100 GRAPHTEMPER_FUZZ_MINUTES=10 $(PYTEST) -m 'nightly and not slow'
	$(MAKE) faults

# The library without torch and without extras, in under three minutes.
test-core: $(CORE)/.core
	OPENBLAS_NUM_THREADS=1 $(CORE)/bin/python -m pytest @tests/core.args -n 2 --dist loadfile

browser: $(VENV)/.test docs
	sh scripts/install_chromium.sh
	$(BIN)/python -m pytest tests/browser

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

paper: $(VENV)/.test
	$(BIN)/graphtemper paper all --out docs/results --results docs/results.md

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m graphtemper_research.pages

# Every committed result whose code has changed: about two hours of two cores for all, then half an hour of speed,
# which is measured with nothing beside it. Large graphs (docs/scale.md) are measured apart: `python -m
# benchmarks.large` draws them first, which needs 20 GB of disk.
evidence: $(VENV)/.bench
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m graphtemper_research.evidence
	$(BIN)/python -m graphtemper_research.trials.months README.md docs/results
	$(BIN)/python -m benchmarks.modules
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m graphtemper_research.pages

# Which results are of other code than this, for `make evidence` to measure; a release has none.
release-check: $(VENV)/.test
	$(BIN)/python -m graphtemper_research.evidence --check

scaling: $(VENV)/.test
	$(BIN)/python -m benchmarks.scaling

clean:
	rm -rf $(VENV) .venv-locked .venv-audit .venv-mutation $(CORE) artifacts docs/_build docs/_generated docs/api/generated docs/gallery/generated
