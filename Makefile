# Needs Python >= 3.11 and make, nothing else. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
EXTRA ?= test
WORKERS ?= 2

PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -q
SLOWEST ?= 25
BUILDER ?= html
BUT ?= and not long

.NOTPARALLEL:
.PHONY: help demo test test-all test-long test-lowest wheel lint bench notebooks docs clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## /\1: /p' Makefile

demo: $(VENV)/.experiments  ## the quickstart
	$(PY) -m experiments.quickstart

test: $(VENV)/.$(EXTRA)  ## the fast tier, doctests included, and its slowest tests
	$(PYTEST) -m "not full" -n $(WORKERS) --dist worksteal --durations=$(SLOWEST)

# A test runs the examples of the package, with their annotations checked: they need not run twice.
test-all: $(VENV)/.$(EXTRA)  ## the fast tier and what takes longer, and the wheel
	$(PYTEST) --ignore=sgmc_jax -m "not one_device $(BUT)" -n $(WORKERS) --dist worksteal --durations=$(SLOWEST) $(LONG)
	SGMC_JAX_TEST_DEVICES=1 $(PYTEST) -m "one_device $(BUT)" -n $(WORKERS) tests/enumeration tests/bnp $(LONG)
	$(MAKE) wheel

test-long:  ## every test, with every law at its full length, the lowest supported versions, and the wheel
	$(MAKE) test-all LONG=--long BUT=
	$(MAKE) test-lowest

test-lowest:  ## the fast tier on the lowest supported versions
	$(MAKE) test VENV=$(VENV)-lowest EXTRA=lowest

lint: $(VENV)/.test  ## ruff and pyright
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright --pythonpath $(PY)

# The wheel holds what the repository declares: nothing of the tree is on the path when it runs.
wheel: $(VENV)/made  ## build the wheel, install it into an empty environment and run it there
	rm -rf $(VENV)-wheel dist && mkdir dist
	$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cp tests/installed.py dist/ && cd dist && $(abspath $(VENV)-wheel)/bin/python installed.py

bench: $(VENV)/.experiments  ## the benchmarks
	$(PY) -m benchmarks

# A notebook with a percent script beside it is made from that script; outputs are stored in the .ipynb.
notebooks: $(VENV)/.test  ## run every notebook from top to bottom
	$(if $(wildcard notebooks/*.py),$(PY) -m jupytext --quiet --to ipynb notebooks/*.py)
	$(PYTEST) --nbmake --nbmake-timeout=900 --overwrite notebooks/*.ipynb
	$(PY) -m tests.strip_notebooks notebooks/*.ipynb
	$(PY) docs/gallery_pictures.py

docs: $(VENV)/.docs  ## the HTML pages, in docs/_build/html; a warning is an error
	$(PY) -m sphinx -q -W --keep-going -b $(BUILDER) docs docs/_build/$(BUILDER)

clean:  ## remove environments, caches and built pages
	rm -rf .venv .venv-lowest .venv-wheel .cache .pytest_cache .ruff_cache dist docs/_build docs/generated docs/notebooks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for the environment and one for each extra installed into it: only a change of
# pyproject.toml installs again.
$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("sgmc_jax needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.%: pyproject.toml | $(VENV)/made
	$(PY) -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@
