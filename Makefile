SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: setup check test run clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@echo "setting up $(VENV) (once) ..."
	@python3 -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@
