SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
# One process a core; what is on real parts stays in one of them (tests/conftest.py).
PYTEST := $(PY) -m pytest -n auto
SOURCES := events scheduling adapters services migrations tests benchmarks

# Parts that were fetched or built for the tests.
export PATH := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/gpuledger/bin:$(PATH)

.PHONY: setup parts check test chaos soak mutants catalogue run lock clean

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
	GPULEDGER_FAST=1 $(PYTEST)
else
test: check parts ## Everything that CI runs
	$(PYTEST)
	$(PY) -m services.simulator.report tests/scenarios/field tests/scenarios/oracle tests/scenarios/own
	$(MAKE) chaos
endif

# Fresh seeds: the commit's hash says where they begin, so that seed and commit give the run again.
CHAOS_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))

chaos: setup ## 200 fresh seeds of the simulation with faults
	$(VENV)/bin/gpuledger simulate --chaos --seeds 200 --steps 1500 --seed $(CHAOS_SEED)

soak: setup ## 5,000 fresh seeds, what fails is reduced and kept; kills on real parts under 2,000 pods
	$(VENV)/bin/gpuledger simulate --chaos --seeds 5000 --steps 1500 --seed $(CHAOS_SEED) --keep tests/simulation/seeds
	GPULEDGER_KILLS=120 GPULEDGER_KILL_PODS=2000 $(PY) -m pytest -s tests/system/test_kills_real.py

mutants: setup ## Planted faults: each must be caught by the simulation
	$(PY) -m pytest tests/simulation/mutants

catalogue: setup ## Write the catalogue of record types anew
	$(PY) -m adapters.log.catalogue docs/events

run: setup ## The lab on the embedded cluster; ARGS=--exit ends after the last step
	$(VENV)/bin/gpuledger lab $(ARGS)

lock: ## Resolve the dependencies anew (needs uv)
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
