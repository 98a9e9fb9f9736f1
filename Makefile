# Every target installs what it needs by itself, once per state of the requirements.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
BIN := $(VENV)/bin
KEY := $(shell cat requirements/run.txt requirements/dev.txt pyproject.toml | cksum | tr -s ' \t' '-')
RUN := $(VENV)/.run-$(KEY)
DEV := $(VENV)/.dev-$(KEY)
# The run-time install is enough; the development install includes it.
READY := $(if $(wildcard $(DEV)),$(DEV),$(RUN))
# The tools of the documentation's site, in an environment of its own.
DOCS := .venv-docs
SITE := $(DOCS)/.site-$(shell cksum < requirements/docs.txt | tr -s ' \t' '-')
export NO_MKDOCS_2_WARNING := 1
# Four workers on two cores, because most tests of processes wait. In the order of the folders: the
# files with the longest tests are first, so that no worker waits at the end. By default the files with
# the fewest tests would be last, which are the longest ones.
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Compile each module once, not in each process: many containers set this variable.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: $(shell sed -nE 's/^([a-z-]+):.*##.*/\1/p' $(MAKEFILE_LIST))

help:  ## Show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

setup: $(DEV)  ## Make .venv with everything that the other targets need

demo: $(READY)  ## Start the service and take simulated machines through their life cycle
	@$(BIN)/python -m workers.demo $(ARGS)

up: $(READY)  ## Start the service here: API, a conductor, beat, Redis, SQLite
	@$(BIN)/ingot up $(ARGS)

test: $(DEV)  ## Run the tests (ARGS="-k name" for some)
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-fast: $(DEV)  ## Run the tests of a quick loop: unit and contract, against SQLite only
	$(BIN)/python -m pytest $(PARALLEL) -m 'not slow and not postgresql' tests/contract tests/unit $(ARGS)

test-random: $(DEV)  ## Run test-fast in a random order (SEED=7 repeats one)
	$(BIN)/python -m pytest -n 4 --dist loadfile --random-order --random-order-seed=$(or $(SEED),$(shell date +%s)) \
	  -m 'not slow and not postgresql' tests/contract tests/unit $(ARGS)

test-slow: $(DEV)  ## Run the slow tests: more faults, each for half a minute
	$(BIN)/python -m pytest -n 2 -m slow $(ARGS)

neutron-test: $(DEV)  ## Test the network interfaces with a real Neutron and Open vSwitch (root, Debian 12)
	$(BIN)/python -m pytest -m slow tests/e2e/test_real_neutron.py $(ARGS)

switch-test: $(DEV)  ## Test network interface switch with a real Open vSwitch (root, Debian 12)
	$(BIN)/python -m pytest -m slow tests/e2e/test_real_switch.py $(ARGS)

glance-test: $(DEV)  ## Test deployments of images from a real Glance
	$(BIN)/python -m pytest -m slow tests/e2e/test_real_glance.py $(ARGS)

boot-test: $(DEV)  ## Boot QEMU machines from the DHCP and TFTP server of a conductor (root, Debian 12)
	$(BIN)/python -m pytest -m slow tests/e2e/test_real_boot.py $(ARGS)

tempest: $(DEV)  ## Run OpenStack's own tests of the API, ironic-tempest-plugin, with a real Keystone
	$(BIN)/python -m pytest -m slow tests/e2e/test_tempest.py $(ARGS)

coverage: $(DEV)  ## Measure the lines and branches that test-fast runs; the report names the missing ones
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PARALLEL) -o ring_budgets= -m 'not slow and not postgresql' $(or $(ARGS),tests/contract tests/unit); \
	  status=$$?; $(BIN)/coverage combine --quiet && $(BIN)/coverage report $(if $(ARGS),--fail-under=0) && exit $$status

fuzz: $(DEV)  ## Send random requests to the API, for FUZZ_SECONDS (600)
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) $(BIN)/python -m pytest tests/contract/test_fuzz.py \
	  -o timeout=0 --show-capture=no $(ARGS)

check: $(DEV)  ## Format, lint, types, import contracts, generated docs
	@! git grep -nE '^(<{7}|>{7}) ' || { echo 'these lines are left from a merge'; exit 1; }
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -e docs/generate.py ]; then $(BIN)/python -m docs.generate --check; fi

docs: $(DEV)  ## Write the generated docs
	$(BIN)/python -m docs.generate

docs-serve: $(SITE)  ## Serve the documentation as a site: http://127.0.0.1:8000 (ARGS="-a HOST:PORT")
	$(DOCS)/bin/mkdocs serve -f docs/site/mkdocs.yml $(ARGS)

docs-build: $(SITE)  ## Build that site in build/docs; a broken link ends it
	$(DOCS)/bin/mkdocs build --strict --clean -f docs/site/mkdocs.yml $(ARGS)

night: $(DEV)  ## A night's work on simulated machines, by the operator's commands (ARGS="--machines 500 --wave 25%")
	@$(BIN)/python -m tests.night $(ARGS)

demo-picture: $(DEV)  ## Run the demo, and write its recording: docs/demo.svg
	$(BIN)/python -m docs.demo_recording

night-picture: $(DEV)  ## Run a night, and write its recording: docs/night.svg (ARGS="--machines 500 --wave 25%")
	@$(BIN)/python -m docs.night_recording $(ARGS)

bench: $(DEV)  ## Run the benchmarks
	$(BIN)/python -m tests.bench $(ARGS)

model: $(DEV)  ## Check the protocol of leases, fences and claims in a larger world (five minutes)
	$(BIN)/python -m tests.model $(ARGS)

mutants: $(DEV)  ## Break each demand of docs/specs.md: its tests must fail (ARGS="--spec NAME", "--only ID")
	$(BIN)/python -m tests.mutants $(ARGS)

mutation: $(DEV)  ## Mutate the core with mutmut, list the survivors (ARGS="app.planning.planning*")
	$(BIN)/mutmut run $(ARGS)
	$(BIN)/mutmut results

rotation-storm: $(DEV)  ## Rotate the passwords of 300 BMCs while conductors die (ARGS="--minutes 5 --nodes 300 --seed N")
	$(BIN)/python -m tests.chaos --rotation $(ARGS)

chaos: $(DEV)  ## Kill everything at random, lose nothing (ARGS="--minutes 10 --nodes 300 --seed N")
	$(BIN)/python -m tests.chaos $(ARGS)

hosts: $(DEV)  ## Cut, delay and skew hosts in network namespaces (root; ARGS="--list", "--phase NAME --seed N")
	$(BIN)/python -m tests.hosts $(ARGS)

compose-test: $(DEV)  ## Run the containers of compose/: life cycle, kill, upgrade, restore, new secrets (root, Debian)
	@$(BIN)/python -m tests.containers $(ARGS)

compare-ironic: $(DEV)  ## Send the same requests to Ironic and Ingot, show the differences
	$(BIN)/python -m tests.compare $(ARGS)

lab: $(DEV)  ## Test life cycles with virtual machines, real BMCs and the real agent (root, Debian 12)
	$(BIN)/python -m tests.lab $(ARGS)

lab-faults: $(DEV)  ## Test injected faults on the machines of the lab
	$(BIN)/python -m tests.lab faults

lab-up: $(DEV)  ## Start the lab and leave it running
	$(BIN)/python -m tests.lab up $(ARGS)

lab-down: $(DEV)  ## Stop the lab of lab-up
	$(BIN)/python -m tests.lab down

lock:  ## Pin the requirements again (needs uv)
	for name in run dev agent lab neutron glance tempest docs containers; do \
	  uv pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.11 \
	    requirements/$$name.in -o requirements/$$name.txt; \
	done
	for name in openstack otel mysql switch; do \
	  uv pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.11 \
	    -c requirements/run.txt requirements/$$name.in -o requirements/$$name.txt; \
	done

dist: | $(BIN)/python  ## Build the wheel and the source distribution in build/dist, and check them
	@[ -e build/dist-tools/bin/twine ] || { $(BIN)/python -m venv build/dist-tools && \
	  build/dist-tools/bin/python -m pip install --quiet --disable-pip-version-check build twine; }
	rm -rf build/dist
	build/dist-tools/bin/python -m build --outdir build/dist .
	build/dist-tools/bin/twine check --strict build/dist/*

sbom: $(DEV)  ## Write build/sbom.json, the bill of materials in CycloneDX
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --no-validate -o build/sbom.json requirements/run.txt

audit: $(DEV)  ## Look for packages with a known fix; needs the network, else NOT RUN (exit status not 0)
	@$(BIN)/python -m tests.supply_chain packages

images: $(DEV)  ## Look for images in compose/.env without a digest
	@$(BIN)/python -m tests.supply_chain images

clean:  ## Remove installed and cached files
	rm -rf $(VENV) $(DOCS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info

$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3 python3.12 python3.13; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "making $(VENV) with $$($$python --version)"; exec $$python -m venv $(VENV); \
	  fi; \
	done; echo "Python 3.11 or newer is needed; name it: make PYTHON=/path/to/python3" >&2; exit 1

$(RUN): | $(BIN)/python
	@echo "installing what Ingot needs to run"
	@$(INSTALL) --require-hashes -r requirements/run.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.run-* && touch $@

$(DEV): | $(BIN)/python
	@echo "installing what Ingot needs to run and to be worked on"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.dev-* && touch $@

$(SITE): | $(BIN)/python
	@echo "installing what builds the documentation"
	@$(BIN)/python -m venv --clear $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@
