SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
SOURCES := events scheduling adapters services migrations tests benchmarks

# Parts that were fetched or built for the tests.
export PATH := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/gpuledger/bin:$(PATH)

.PHONY: setup parts check test run lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@bash deploy/setup-venv.sh $(VENV)
	@touch $@

check: setup ## Format, lint, types and import rules: under a minute
	$(VENV)/bin/ruff format --check $(SOURCES)
	$(VENV)/bin/ruff check $(SOURCES)
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy

parts: setup ## Kafka's jars, etcd, PostgreSQL, Go and kubectl for the tests on real parts
	@bash tests/parts/setup.sh

ifdef FAST
test: check ## FAST=1: without real parts and long simulations, in under three minutes
	GPULEDGER_FAST=1 $(PY) -m pytest
else
test: check parts ## Everything that CI runs
	$(PY) -m pytest
	$(PY) -m services.simulator.report tests/scenarios/field tests/scenarios/oracle tests/scenarios/own
endif

run: setup ## The lab on the embedded cluster; ARGS=--exit ends after the last step
	$(VENV)/bin/gpuledger lab $(ARGS)

lock: ## Resolve the dependencies anew (needs uv)
	uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
