# Everything a person types. `make demo`, `make test` and `make test-all` work from a fresh clone; the rest is for working on tfquiver.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
# What is developed with. TENSORFLOW='tensorflow-cpu==2.21.*' will do, too.
TENSORFLOW ?= tensorflow==2.21.*
# Three processes a core: one computes while the others wait; two where little is waited for. JOBS=0: one after the
# other, in one process.
# EXAMPLES=10: ten times the Hypothesis examples. `test-quick` draws a tenth of them, `test` a third, `test-all` all.
A_CORE := 3
test-quick: A_CORE := 2
JOBS ?= $(shell expr $(A_CORE) \* $$(nproc))
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
KINDS := unit contract ops integration fault golden
QUICK := unit contract golden

.PHONY: demo test test-all test-quick $(KINDS:%=test-%) lint docs bazel bench bench-quick package supply images clean

# The .so is built with the TensorFlow that it will run with, so the build is not isolated from the environment.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip 'setuptools>=77' wheel

SOURCES := $(shell find ops -name '*.cc' -o -name '*.h' -o -name '*.lds') setup.py pyproject.toml

$(VENV)/.demo: $(SOURCES) | $(VENV)/bin/python
	$(PIP) '$(TENSORFLOW)'
	$(PIP) --no-build-isolation -e '.[demo]'
	@touch $@

$(VENV)/.test: $(SOURCES) | $(VENV)/bin/python
	$(PIP) '$(TENSORFLOW)'
	$(PIP) --no-build-isolation -e '.[demo,test,docs,fsspec]'
	pkg-config --exists fuse3 && $(PIP) 'pyfuse3>=3.4' || echo "no pyfuse3 (libfuse3-dev, python3-dev): tests of mounts are skipped"
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/tfquiver demo $(ARGS)

test-all test-%: export TFQUIVER_TEST_EXAMPLES = $(EXAMPLES)
test: export TFQUIVER_TEST_EXAMPLES = $(or $(EXAMPLES),0.3)
test-quick: export TFQUIVER_TEST_EXAMPLES = $(or $(EXAMPLES),0.1)

# What needs no servers, little of TensorFlow, no half second of a processor by itself, and waits for little.
test-quick: $(VENV)/.test
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow" $(QUICK:%=tests/%) $(ARGS)

# Something of everything: what to run before a change is shown to others.
test: $(VENV)/.test
	$(PYTEST) $(SIDE_BY_SIDE) -m "not long" $(KINDS:%=tests/%) $(ARGS)

# What CI runs: also all pages of the guide, the core under sanitizers, and kills by the dozen.
test-all: $(VENV)/.test
	$(PYTEST) $(SIDE_BY_SIDE) $(KINDS:%=tests/%) $(ARGS)

$(KINDS:%=test-%): test-%: $(VENV)/.test
	$(PYTEST) $(SIDE_BY_SIDE) tests/$* $(ARGS)

lint: $(VENV)/.test
	PATH="$(abspath $(BIN)):$$PATH" .ci/check

# Into build/site; any warning fails.
docs: $(VENV)/.test
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 mkdocs build --strict

bazel: $(VENV)/.test
	PATH="$(abspath $(BIN)):$$PATH" .ci/bazel/test

bench: $(VENV)/.test
	$(BIN)/python -m tests.bench.run_all $(ARGS)

bench-quick: $(VENV)/.test
	$(BIN)/python -m tests.bench.run_all --quick $(ARGS)

# Wheel and sdist, left in dist/, then the wheel tried with this TensorFlow and others.
package: $(VENV)/.test
	PATH="$(abspath $(BIN)):$$PATH" .ci/package dist

# After `make package`: all wheels of our images, their list of components, known vulnerabilities.
supply: $(VENV)/.test
	PATH="$(abspath $(BIN)):$$PATH" .ci/supply dist

# Both images, of what `package` and `supply` left in dist/, and the cluster of configs/compose: needs podman or docker.
images:
	PATH="$(abspath $(BIN)):$$PATH" .ci/images dist

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache ops/lib
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
