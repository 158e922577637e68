# make run    set everything up and serve config.yaml with the bundled model
# make test   what CI runs: style, types, the whole suite
# make test-fast  under two minutes, for the inner loop: no engine, browser, database or vendor's client
# make nightly  what takes too long for every run, in parts that also run alone: nightly-tests,
#             nightly-clients, nightly-fuzz, nightly-statistics, nightly-isolation, nightly-chaos,
#             nightly-soak. Sizes: see CLIENTS, FUZZ, TRIALS, CHAOS_S, SOAK below, for example
#             `make nightly-fuzz FUZZ=5000` or `make nightly-clients CLIENTS="lm-eval guidellm"`
# make check  style and types alone        make fmt   rewrite the style
# make demo   two bundled models behind one name, a crowd that votes, and which one is better
# make bench  the benchmarks (needs nginx and wrk)
# make soak   a million requests, ten thousand left streams, a thousand streams at once
# make chaos  ten minutes in which everything fails in turn; CHAOS_S=60 for another length
# make matrix write docs/matrix.md anew: what reaches what, asked of a running gateway
# make parameters  write docs/parameters.md anew: what becomes of each parameter at each backend
# make lock   write the versions and hashes in requirements/ (needs PyPI); UPGRADE=--upgrade for new versions
# make screenshots  photograph the page at /admin anew, for docs/images
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --quiet --disable-pip-version-check
CONFIG ?= config.yaml

# Clients from their packages (tests/clients/packages.py); none: all of them.
CLIENTS ?=

# Of the parts of `make nightly`: requests, simulated experiments a cell, seconds, requests. Each part takes at most 40 minutes.
FUZZ    ?= 100000
TRIALS  ?= 1000
CHAOS_S ?= 600
SOAK    ?= 1000000

# Dozens of processes start in a run of the tests, and each would compile torch anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-fast nightly nightly-tests nightly-clients nightly-fuzz nightly-statistics nightly-isolation nightly-chaos nightly-soak check fmt demo bench soak chaos matrix parameters screenshots lock servers setup setup-dev clean

run: setup
	$(BIN)/strowger serve --config $(CONFIG)

# Half of the tests wait for something: three workers keep two cores busy, and style and types are
# checked beside them.
test:
	@$(MAKE) --no-print-directory -j2 setup-dev servers
	@$(MAKE) --no-print-directory check >$(VENV)/check.log 2>&1 & check=$$!; \
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --durations 15; tests=$$?; \
	wait $$check; checked=$$?; cat $(VENV)/check.log; exit $$((tests | checked))

test-fast: setup-dev
	$(BIN)/python -m pytest --fast -n 3 --dist loadfile --no-loadscope-reorder -q

nightly:
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

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

fmt: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: setup
	$(BIN)/python docs/examples/ab-test/demo.py

bench: setup-dev
	$(BIN)/python -m benchmarks

soak: setup-dev
	$(BIN)/python -m benchmarks.soak

chaos: setup-dev
	$(BIN)/python -m benchmarks.chaos --seconds $(CHAOS_S)

matrix: setup-dev
	$(BIN)/python -m tests.matrix.measure

parameters: setup-dev
	$(BIN)/python -m tests.parameters.write

screenshots: setup-dev servers
	$(BIN)/python -m tests.gateway.admin.page.screenshots

servers:
	@bash tests/install_servers.sh

setup: $(VENV)/.ready
setup-dev: $(VENV)/.ready-dev

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
lock: setup-dev
	$(PIP) install 'uv>=0.13,<0.14'
	$(COMPILE) -c constraints.txt --extra local --extra dev pyproject.toml requirements/extra.in -o requirements/dev.txt
	$(COMPILE) -c requirements/dev.txt --extra local pyproject.toml requirements/extra.in -o requirements/run.txt
	$(COMPILE) -c constraints.txt requirements/pip.in -o requirements/pip.txt

clean:
	rm -rf $(VENV)
