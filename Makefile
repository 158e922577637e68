.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --quiet --disable-pip-version-check
CONFIG ?= config.yaml

# Clients of `make nightly-clients` (tests/clients/packages.py), for example CLIENTS="lm-eval guidellm"; empty: all.
CLIENTS ?=

# Agents of `make agents` and `make nightly-agents` (tests/agents/roster.py), for example AGENTS="codex qwen-code"; empty: all.
AGENTS ?=

# Sizes of the parts of `make nightly`, for example `make nightly-fuzz FUZZ=5000`: requests, examples per property,
# simulated experiments per cell, seconds, requests, damaged checkpoints, requests, requests, killed Redis masters, starts on an empty
# database, killed exports, requests to six replicas, seconds in a terminal, hand-overs. Each part takes at most 40 minutes.
FUZZ    ?= 100000
EXAMPLES ?= 500
TRIALS  ?= 1000
CHAOS_S ?= 600
SOAK    ?= 1000000
CHECKPOINTS ?= 1000
BURST   ?= 10000
ROLLING ?= 100000
FAILOVERS ?= 8
STARTS  ?= 100
EXPORT_KILLS ?= 100
BALANCED ?= 9000
TERMINAL_S ?= 600
RESTARTS ?= 20

# Families of `make nightly-families` (docs/engine-families.md), for example FAMILIES="llama gemma3"; empty: all.
FAMILIES ?=

# Where `make test-device` runs the engine.
DEVICE ?= cuda

# Tests that `make nightly-npu` runs on a stand-in for an NPU, for example NPU_TESTS=tests/local_engine/ops.
NPU_TESTS ?= tests/local_engine

# Interpreters of `make nightly-wheel`; those that are not installed are left out.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

# A test run starts dozens of processes; without cached bytecode each would compile torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-fast test-device coverage nightly nightly-tests nightly-clients nightly-agents nightly-fuzz nightly-families nightly-properties nightly-statistics nightly-isolation nightly-chaos nightly-soak nightly-burst nightly-rolling nightly-restarts nightly-terminal nightly-ray nightly-image nightly-npu nightly-wheel check fmt docs reference cli-reference config-schema changelog prices demo bench soak chaos matrix agents families parameters screenshots figures lock dist sbom lint-workflows wheels servers setup setup-core setup-dev clean

help:  ## List the targets
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: setup  ## Set up .venv and serve CONFIG (config.yaml) with the bundled model
	$(BIN)/strowger serve --config $(CONFIG)

# Many tests wait for something, so seven workers keep two cores busy; they are forks of one process, which collects
# while style and types are checked.
test:  ## Run what CI runs: style, types, the whole suite
	@$(MAKE) --no-print-directory -j2 setup-dev servers
	@$(MAKE) --no-print-directory check >$(VENV)/check.log 2>&1 & check=$$!; \
	$(BIN)/python -m tests.forked 7 --dist loadfile --no-loadscope-reorder --durations 15; tests=$$?; \
	wait $$check; checked=$$?; cat $(VENV)/check.log; exit $$((tests | checked))

test-fast: setup-dev  ## Run the quick tests, under two minutes: no engine, browser, database or vendor client
	$(BIN)/python -m pytest --fast -n 3 --dist loadfile --no-loadscope-reorder -q

# On a machine with a GPU and torch's CUDA build; what needs no device runs on the CPU as ever.
test-device: setup-dev  ## Run the engine's tests on DEVICE=cuda
	STROWGER_TEST_DEVICE=$(DEVICE) $(BIN)/python -m pytest -n 3 --dist loadfile tests/local_engine

# Only reports: no threshold fails it. Takes up to twice the time of the tests. FAST=--fast: only the quick tests.
coverage: setup-dev servers  ## Run the tests with coverage of lines and branches: a summary and coverage.xml
	$(BIN)/python -m pytest $(FAST) -n 3 --dist loadfile --no-loadscope-reorder -q --cov --cov-report=term --cov-report=xml

nightly:  ## Run the long tests; the parts nightly-tests, -clients, -agents, -fuzz, -families, -properties, -statistics, -isolation, -chaos, -soak, -burst, -rolling, -restarts, -terminal, -ray, -image, -npu, -wheel also run alone
	$(MAKE) -k nightly-tests nightly-clients nightly-agents nightly-fuzz nightly-families nightly-properties nightly-statistics nightly-isolation nightly-chaos nightly-soak nightly-burst nightly-rolling nightly-restarts nightly-terminal nightly-ray nightly-image nightly-npu nightly-wheel

nightly-tests: setup-dev servers
	STROWGER_FAILOVERS=$(FAILOVERS) STROWGER_STARTS=$(STARTS) STROWGER_EXPORT_KILLS=$(EXPORT_KILLS) STROWGER_BALANCED=$(BALANCED) $(BIN)/python -m pytest -n 2 --dist loadfile -m nightly --ignore tests/gateway/http/test_fuzz.py --ignore tests/local_engine/ops/test_npu_wheel.py \
		--ignore tests/local_engine/loading/test_odd_values.py \
		--ignore tests/gateway/experiments --ignore tests/gateway/statistics --ignore tests/clients --ignore tests/agents --ignore tests/gateway/fleet/burst --ignore tests/deploy \
		--ignore tests/local_engine/families --ignore tests/releases --ignore tests/gateway/backends/placement --ignore tests/gateway/cli/terminals \
		--ignore tests/gateway/fleet/processes/test_restarts.py

nightly-clients: setup-dev
	$(BIN)/python -m tests.clients.install $(CLIENTS)
	STROWGER_CLIENTS="$(CLIENTS)" $(BIN)/python -m pytest -s -m nightly tests/clients

nightly-agents: setup-dev
	$(BIN)/python -m tests.agents.install $(AGENTS)
	STROWGER_AGENTS="$(AGENTS)" $(BIN)/python -m pytest -s -m nightly tests/agents
	$(BIN)/python -m pytest tests/clients/test_recipes.py -k typescript

nightly-fuzz: setup-dev
	STROWGER_FUZZ_REQUESTS=$(FUZZ) $(BIN)/python -m pytest -m nightly tests/gateway/http/test_fuzz.py
	STROWGER_CHECKPOINTS=$(CHECKPOINTS) $(BIN)/python -m pytest -m nightly tests/local_engine/loading/test_odd_values.py

# Two at a time, each in a process of its own with limits of time and memory; a quarter of an hour for all.
nightly-families: setup-dev
	STROWGER_FAMILIES="$(FAMILIES)" $(BIN)/python -m pytest -s -m nightly tests/local_engine/families

# The properties of `make test`, with a hundred times the examples, or twenty times where they have many.
nightly-properties: setup-dev servers
	STROWGER_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n 2 --dist loadfile -m "hypothesis and not nightly"

nightly-statistics: setup-dev
	STROWGER_TRIALS=$(TRIALS) $(BIN)/python -m pytest -s -m nightly tests/gateway/experiments tests/gateway/statistics

nightly-isolation: setup-dev
	$(BIN)/python -m benchmarks.isolation

nightly-chaos: chaos

nightly-soak: setup-dev
	$(BIN)/python -m benchmarks.soak --requests $(SOAK)

# The clock of one gateway is a minute ahead if libfaketime is installed (Debian's package faketime).
nightly-burst: setup-dev servers
	STROWGER_BURST=$(BURST) $(BIN)/python -m pytest -s -m nightly tests/gateway/fleet/burst

nightly-rolling: setup-dev
	STROWGER_ROLLING=$(ROLLING) $(BIN)/python -m pytest -s -m nightly tests/deploy --ignore tests/deploy/image

# Gateways that take each other's place under load, RESTARTS times.
nightly-restarts: setup-dev
	STROWGER_RESTARTS=$(RESTARTS) $(BIN)/python -m pytest -s -m nightly tests/gateway/fleet/processes/test_restarts.py

# A gateway in a terminal, with budgets, stopped, started and killed for TERMINAL_S seconds.
nightly-terminal: setup-dev
	STROWGER_TERMINAL_S=$(TERMINAL_S) $(BIN)/python -m pytest -s -m nightly tests/gateway/cli/terminals

# Ray goes into a folder of its own, because it has 200 MB.
nightly-ray: setup-dev
	$(BIN)/python -m tests.gateway.backends.placement.ray_package
	$(BIN)/python -m pytest -s -m nightly tests/gateway/backends/placement

# As root, with buildah, mmdebstrap and bubblewrap (Debian's packages of these names); skipped without them.
nightly-image: setup-dev
	$(BIN)/python -m pytest -s -m nightly tests/deploy/image

# Reads torch-npu's wheel (44 MB), which is never installed; then the engine's tests on the stand-in's device: twelve
# minutes of CPU time, and at most forty minutes.
nightly-npu: setup-dev
	$(BIN)/python -m pytest -s -m nightly tests/local_engine/ops/test_npu_wheel.py
	STROWGER_TEST_DEVICE=npu PYTHONPATH=$(CURDIR)/tests/local_engine/stand_ins/installed timeout 2400 \
		$(BIN)/python -m pytest -n 2 --dist loadfile $(NPU_TESTS)

# Each Python that this machine has, with the newest dependencies; wheels of the lock for all; the tools of a release.
nightly-wheel: setup-dev
	STROWGER_PYTHONS="$(PYTHONS)" $(BIN)/python -m pytest -s -m nightly tests/releases

# Translations are only reported: a release fails for them (release.yml).
check: setup-dev  ## Check only style and types, and report translations that are older than their English pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.type_check
	$(BIN)/python -m tools.twins

fmt: setup-dev  ## Fix and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# VERSION=0.2.0 names the version that is about to be released.
changelog: setup-dev  ## Move the files of changelog.d into a section of CHANGELOG.md for VERSION
	$(BIN)/python -m tools.changelog $(VERSION)

demo: setup  ## Run an A/B test of two bundled models with simulated users, up to the verdict
	$(BIN)/python docs/examples/ab-test/demo.py

bench: setup-dev  ## Run all benchmarks (needs nginx; a quarter of an hour for the gateway's)
	$(BIN)/python -m benchmarks

soak: setup-dev  ## Run a million requests, ten thousand abandoned streams, a thousand concurrent streams
	$(BIN)/python -m benchmarks.soak

chaos: setup-dev  ## Make every part fail in turn for ten minutes; CHAOS_S=60 for another duration
	$(BIN)/python -m benchmarks.chaos --seconds $(CHAOS_S)

docs: setup-dev  ## Build the documentation as a site in build/docs; warnings are errors
	$(BIN)/python -m sphinx -q -W --keep-going -c docs/site docs build/docs

cli-reference: setup-dev  ## Write docs/reference/cli.md from the commands
	$(BIN)/python -m tools.cli_reference

reference: setup-dev  ## Write the pages of docs/reference that come from the code
	$(BIN)/python -m tools.reference

config-schema: setup-dev  ## Write docs/config.schema.json from the code and docs/configuration.md
	$(BIN)/python -m tools.config_schema

prices: setup-dev  ## Write the table of published prices from the locked genai-prices, with the date
	$(BIN)/python -m tools.price_table

matrix: setup-dev  ## Write docs/matrix.md from a running gateway: which client formats reach which backends
	$(BIN)/python -m tests.matrix.measure

agents: setup-dev  ## Write the table of docs/agents.md: which agents work with which backends (needs PyPI and npm)
	$(BIN)/python -m tests.agents.measure $(AGENTS)

families: setup-dev  ## Write docs/engine-families.md: which kinds of models the engine serves, and why not others
	$(BIN)/python -m tests.local_engine.families.write

parameters: setup-dev  ## Write docs/parameters.md: what each backend does with each parameter
	$(BIN)/python -m tests.parameters.write

screenshots: setup-dev servers  ## Take screenshots of the /admin page for docs/images
	$(BIN)/python -m tests.gateway.console.admin.page.screenshots

servers:  ## Install Chromium, PostgreSQL, PgBouncer, Redis, nginx and Caddy for the tests (Debian, as root)
	@bash tests/install_servers.sh

# SDK="google-genai ollama": clients of vendors that tests of their adapters need as well.
setup-core:  ## Install into .venv only what tests of one adapter need (CONTRIBUTING.md); SDK=google-genai adds a vendor's client
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --require-hashes -r requirements/pip.txt
	$(PIP) install --no-compile --no-deps --require-hashes -r requirements/core.txt
	@sed -n 's/^\([[:alnum:]].*[^ ]\) *\\$$/\1/p' requirements/dev.txt > $(VENV)/versions.txt
	$(if $(SDK),$(PIP) install --no-compile -c $(VENV)/versions.txt $(SDK))
	$(PIP) install --no-compile --no-deps --no-build-isolation -e .

setup: $(VENV)/.ready  ## Install into .venv what `make run` needs
setup-dev: $(VENV)/.ready-dev  ## Install into .venv what `make test` needs

# All packages but torch are checked against the hashes in requirements/ (requirements/excluded.txt explains torch).
# --no-compile: modules are compiled at their first import; compiling all of torch takes a minute.
# The pip of Python 3.11 takes a minute to read the lock, a new one seconds. Three install at the same time, because
# each uses one core: two one half of the lock each, and one torch, whose dependencies (of builds for CUDA) follow.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile --require-hashes -r requirements/pip.txt
	@awk '/^[[:alnum:]]/ {half = !half} {print > ("$(VENV)/lock-" half ".txt")}' requirements/$(1).txt
	$(PIP) install --no-compile --no-deps -c constraints.txt torch & torch=$$!; \
	$(PIP) install --no-compile --no-deps --require-hashes -r $(VENV)/lock-0.txt & first=$$!; \
	$(PIP) install --no-compile --no-deps --require-hashes -r $(VENV)/lock-1.txt && wait $$first && wait $$torch
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

figures: setup-dev  ## Copy the figures of docs/benchmarks.md into the README
	$(BIN)/python -m tools.readme_figures

# UPGRADE=--upgrade takes the newest versions that pyproject.toml and constraints.txt allow.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-header --excludes requirements/excluded.txt $(UPGRADE)
# What the images can do: every provider, every database, and guardrails. No parquet, which would add 45 MB.
IMAGE_EXTRAS := $(addprefix --extra ,postgres redis jwt tokens bedrock vertex entra guardrails dns)
lock: setup-dev  ## Write the versions and hashes in requirements/ (needs PyPI); UPGRADE=--upgrade for new versions
	$(PIP) install 'uv>=0.13,<0.14'
	$(COMPILE) -c constraints.txt --extra local --extra dev pyproject.toml requirements/extra.in -o requirements/dev.txt
	$(COMPILE) -c requirements/dev.txt --extra dev-core pyproject.toml requirements/core.in -o requirements/core.txt
	$(COMPILE) -c requirements/dev.txt --extra local pyproject.toml requirements/extra.in -o requirements/run.txt
	$(COMPILE) -c requirements/dev.txt $(IMAGE_EXTRAS) pyproject.toml requirements/image.in -o requirements/gateway.txt
	$(COMPILE) -c requirements/dev.txt -c requirements/gateway.txt $(IMAGE_EXTRAS) --extra local pyproject.toml \
		requirements/image.in requirements/torch.in -o requirements/engine.txt
	$(COMPILE) -c requirements/engine.txt $(IMAGE_EXTRAS) --extra local --extra npu pyproject.toml \
		requirements/image.in requirements/torch.in -o requirements/ascend.txt
	$(COMPILE) -c requirements/dev.txt requirements/build.in -o requirements/build.txt
	$(COMPILE) -c constraints.txt requirements/pip.in -o requirements/pip.txt
	$(COMPILE) -c requirements/run.txt requirements/release.in -o requirements/release.txt

TOOLS := build/release-tools
$(TOOLS)/.ready: requirements/release.txt
	rm -rf $(TOOLS)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip --quiet --disable-pip-version-check install --require-hashes -r requirements/release.txt
	@touch $@

dist: $(TOOLS)/.ready  ## Build wheel and sdist of the commit, twice, into dist/; fail unless both builds are equal
	$(TOOLS)/bin/python -m tools.release_build

# The lock and torch, which is not in it (requirements/excluded.txt). Reproducible: no serial number, no time.
sbom: $(TOOLS)/.ready  ## Write the software bill of materials of the locked dependencies (CycloneDX) into dist/
	@mkdir -p dist
	{ cat requirements/run.txt; grep '^torch==' constraints.txt; } | $(TOOLS)/bin/cyclonedx-py requirements - \
		--pyproject pyproject.toml --mc-type application --output-reproducible --spec-version 1.6 \
		--output-format JSON --output-file dist/strowger_gateway-sbom.cdx.json
	cd dist && sha256sum strowger_gateway-* > SHA256SUMS

lint-workflows: $(TOOLS)/.ready  ## Check .github/workflows against GitHub's schema and audit them
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/bin/zizmor --offline --min-severity medium .github/workflows

# For a build of an image without a network: deploy/image/install.sh then takes these packages and asks no index.
IMAGE ?= engine
wheels:  ## Download the packages of an image, IMAGE=gateway or engine, to requirements/wheels
	PYTHON=$(PYTHON) sh deploy/image/wheels.sh $(IMAGE) requirements/wheels

clean:  ## Delete .venv
	rm -rf $(VENV)
