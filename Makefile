.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --quiet --disable-pip-version-check
CONFIG ?= config.yaml

# Clients of `make nightly-clients` (tests/clients/packages.py), for example CLIENTS="lm-eval guidellm"; empty: all.
CLIENTS ?=

# Sizes of the parts of `make nightly`, for example `make nightly-fuzz FUZZ=5000`: requests, simulated experiments
# per cell, seconds, requests. Each part takes at most 40 minutes.
FUZZ    ?= 100000
TRIALS  ?= 1000
CHAOS_S ?= 600
SOAK    ?= 1000000

# Dozens of processes start in a run of the tests, and each would compile torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-fast coverage nightly nightly-tests nightly-clients nightly-fuzz nightly-statistics nightly-isolation nightly-chaos nightly-soak check fmt demo bench soak chaos matrix parameters screenshots figures lock servers setup setup-dev clean

help:  ## This list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: setup  ## Set up .venv and serve CONFIG (config.yaml) with the bundled model
	$(BIN)/strowger serve --config $(CONFIG)

# Half of the tests wait for something: three workers keep two cores busy, and style and types are
# checked beside them.
test:  ## What CI runs: style, types, the whole suite
	@$(MAKE) --no-print-directory -j2 setup-dev servers
	@$(MAKE) --no-print-directory check >$(VENV)/check.log 2>&1 & check=$$!; \
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations 15; tests=$$?; \
	wait $$check; checked=$$?; cat $(VENV)/check.log; exit $$((tests | checked))

test-fast: setup-dev  ## The inner loop, under two minutes: no engine, browser, database or vendor client
	$(BIN)/python -m pytest --fast -n 3 --dist loadfile --no-loadscope-reorder -q

# Reports and never fails on a number; costs up to twice the time of the tests. FAST=--fast for the quick tests only.
coverage: setup-dev servers  ## Run the tests with coverage of lines and branches: a summary and coverage.xml
	$(BIN)/python -m pytest $(FAST) -n 3 --dist loadfile --no-loadscope-reorder -q --cov --cov-report=term --cov-report=xml

nightly:  ## Tests too long for every run; the parts nightly-tests, -clients, -fuzz, -statistics, -isolation, -chaos, -soak also run alone
	$(MAKE) -k nightly-tests nightly-clients nightly-fuzz nightly-statistics nightly-isolation nightly-chaos nightly-soak

nightly-tests: setup-dev servers
	$(BIN)/python -m pytest -n 2 --dist loadfile -m nightly --ignore tests/gateway/http/test_fuzz.py \
		--ignore tests/gateway/experiments --ignore tests/clients

nightly-clients: setup-dev
	$(BIN)/python -m tests.clients.install $(CLIENTS)
	STROWGER_CLIENTS="$(CLIENTS)" $(BIN)/python -m pytest -s -m nightly tests/clients

nightly-fuzz: setup-dev
	STROWGER_FUZZ_REQUESTS=$(FUZZ) $(BIN)/python -m pytest -m nightly tests/gateway/http/test_fuzz.py

nightly-statistics: setup-dev
	STROWGER_TRIALS=$(TRIALS) $(BIN)/python -m pytest -s -m nightly tests/gateway/experiments

nightly-isolation: setup-dev
	$(BIN)/python -m benchmarks.isolation

nightly-chaos: chaos

nightly-soak: setup-dev
	$(BIN)/python -m benchmarks.soak --requests $(SOAK)

check: setup-dev  ## Style and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

fmt: setup-dev  ## Fix and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup  ## Two bundled models in an A/B test with simulated users, and the verdict
	$(BIN)/python docs/examples/ab-test/demo.py

bench: setup-dev  ## All benchmarks (needs nginx and wrk)
	$(BIN)/python -m benchmarks

soak: setup-dev  ## A million requests, ten thousand abandoned streams, a thousand concurrent streams
	$(BIN)/python -m benchmarks.soak

chaos: setup-dev  ## Ten minutes in which every part fails in turn; CHAOS_S=60 for another length
	$(BIN)/python -m benchmarks.chaos --seconds $(CHAOS_S)

matrix: setup-dev  ## Write docs/matrix.md from a running gateway: which client formats reach which backends
	$(BIN)/python -m tests.matrix.measure

parameters: setup-dev  ## Write docs/parameters.md: what each backend does with each parameter
	$(BIN)/python -m tests.parameters.write

screenshots: setup-dev servers  ## Photograph the /admin page for docs/images
	$(BIN)/python -m tests.gateway.admin.page.screenshots

servers:  ## Install Chromium, PostgreSQL and Redis for the tests (Debian, as root)
	@bash tests/install_servers.sh

setup: $(VENV)/.ready  ## Install into .venv what `make run` needs
setup-dev: $(VENV)/.ready-dev  ## Install into .venv what `make test` needs

# Everything is checked against the hashes of requirements/, but torch (requirements/excluded.txt says why).
# --no-compile: a module is compiled when it is first imported; compiling all of torch takes a minute.
# Python 3.11's own pip takes a minute to read the lock, a new one takes seconds.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --require-hashes -r requirements/pip.txt
	$(PIP) install --no-compile --no-deps --require-hashes -r requirements/$(1).txt
	$(PIP) install --no-compile -c constraints.txt torch
	$(PIP) install --no-compile --no-deps --no-build-isolation -e .
endef

$(VENV)/.ready: pyproject.toml constraints.txt requirements/run.txt requirements/pip.txt
	@echo "Setting up $(VENV) (once; about two minutes)"
	$(call install,run)
	@touch $@

$(VENV)/.ready-dev: pyproject.toml constraints.txt requirements/dev.txt requirements/pip.txt
	@echo "Setting up $(VENV) for development (once; about two minutes)"
	$(call install,dev)
	@touch $@ $(VENV)/.ready

# UPGRADE=--upgrade takes the newest versions that pyproject.toml and constraints.txt allow.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-header --excludes requirements/excluded.txt $(UPGRADE)
figures: setup-dev  ## Copy the figures of docs/benchmarks.md into the README
	$(BIN)/python -m tools.readme_figures

lock: setup-dev  ## Write the versions and hashes in requirements/ (needs PyPI); UPGRADE=--upgrade for new versions
	$(PIP) install 'uv>=0.13,<0.14'
	$(COMPILE) -c constraints.txt --extra local --extra dev pyproject.toml requirements/extra.in -o requirements/dev.txt
	$(COMPILE) -c requirements/dev.txt --extra local pyproject.toml requirements/extra.in -o requirements/run.txt
	$(COMPILE) -c constraints.txt requirements/pip.in -o requirements/pip.txt

clean:  ## Delete .venv
	rm -rf $(VENV)
