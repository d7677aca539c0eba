# Every command of the project. Needs python3 (3.11 or newer) and make; everything else goes into .venv.
# Only relative paths: the folder's name may contain a space.

PYTHON ?= python3
PY := .venv/bin/python
COMPILE := $(PY) -m uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup up test fast lint types arch check demo-kill migrate lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

setup: .venv/.installed ## Make .venv and fill it from the locked requirements

up: .venv/.installed ## Start everything and print the URLs; Ctrl-C stops it
	@$(PY) -m app up

test: .venv/.installed ## Run all tests
	$(PY) -m pytest

fast: .venv/.installed ## Run the tests that need no long-lived processes, stop at the first failure
	$(PY) -m pytest -x -q -m "not slow"

lint: .venv/.installed ## Check style and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: .venv/.installed ## Check types
	$(PY) -m mypy

arch: .venv/.installed ## Check that imports only point down the floors
	.venv/bin/lint-imports

check: lint types arch ## All checks but the tests

demo-kill: .venv/.installed ## Kill -9 a node of a running `make up` in mid-step and watch the other finish its run
	@$(PY) -m app demo-kill

migrate: .venv/.installed ## Bring the schema of DATABASE_URL up to date
	$(PY) -m app migrate

lock: .venv/.installed ## Write requirements/*.txt anew from pyproject.toml, at the newest versions allowed
	$(COMPILE) --upgrade -o requirements/prod.txt
	$(COMPILE) --upgrade --extra dev --extra embedded --constraint requirements/prod.txt -o requirements/dev.txt

clean: ## Remove .venv and caches; the data in .durable stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv .venv || \
		{ rm -rf .venv; echo "$(PYTHON) cannot make a virtual environment (on Debian: apt install python3-venv)"; exit 1; }
	@echo "installing the locked requirements into .venv"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
