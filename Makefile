# `make help` lists what there is. Everything works on a clean clone with Python 3.11, a JDK 17 and Maven.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
WATERCLOCK := $(VENV)/bin/waterclock
ROLES := dispatcher workers dag_engine retry_router
COMPILED := $(addprefix waterclock/wire/,__init__.py binary.py glance.py run_event.py work_record.py)
MAVEN_POMS := compose/pom.xml compose/kafka/pom.xml compose/cassandra/pom.xml
PIP := $(PY) -m pip --disable-pip-version-check --quiet

# pip's isolated builds would fetch setuptools once more: it is installed first, by the pin of pyproject.toml.
SETUPTOOLS = $(shell sed -n 's/^ *"\(setuptools==[0-9.]*\)",$$/\1/p' pyproject.toml)

.PHONY: help check test test-fast demo needs up down bench bench-peers bench-plots chaos show jars compiled archives venv venv-dev wheel clean release-schemas

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name remark; do \
	  printf '  make %-16s %s\n' "$$name" "$$remark"; done

# Setting up ---------------------------------------------------------------------------------------------------------

venv: $(VENV)/.runtime ## Python environment with what Waterclock needs to run (.venv)

venv-dev: $(VENV)/.dev

$(VENV)/.runtime: pyproject.toml
	@echo "python environment: $(VENV) (pinned by pyproject.toml)"
	@[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	@$(PIP) install $(SETUPTOOLS)
	@$(PIP) install --no-build-isolation --editable .
	@touch $@

archives: compose/target/.archives ## Local servers start sooner from now on: archives of their classes, beside the jars

# Without an archive a server starts as well, only later: a Java that cannot write one breaks nothing.
compose/target/.archives: compose/target/.jars waterclock/stack/class_archive.py waterclock/stack/archiving.py | venv
	@rm -f compose/{kafka,cassandra}/target/*.jsa
	@$(PY) -m waterclock.stack.archiving && touch $@ || echo 'no archives of classes: the servers start without'

$(VENV)/.dev: $(VENV)/.runtime
	@$(PIP) install --no-build-isolation --editable '.[dev]'
	@touch $@

compiled: $(VENV)/.compiled ## Codecs of run events and work records compiled: roles take a fifth less (needs a C compiler)

# Where there is no C compiler everything works all the same, only slower: the sources are used as they are.
$(VENV)/.compiled: compiled/setup.py compiled/pyproject.toml $(COMPILED) | $(VENV)/.dev
	@$(PIP) install --no-build-isolation ./compiled >compiled/build.log 2>&1 \
	  && echo 'codecs: compiled' || echo 'codecs: not compiled, they stay Python (compiled/build.log says why)'
	@touch $@

jars: compose/target/.jars ## Jars of the local Kafka and Cassandra, by Maven (compose/*/target/lib)

# Fetched beside its place and swapped in whole: an interrupted fetch must not look like a finished one, and jars that
# somebody runs from are never missing for longer than a rename.
compose/target/.jars: $(MAVEN_POMS)
	@echo "jars of the local Kafka and Cassandra: compose/*/target/lib"
	@rm -rf compose/{kafka,cassandra}/target/{fetching,old} && mkdir -p compose/target
	@mirror=(); url="$${WATERCLOCK_STACK__MAVEN_URL:-}"; settings=compose/target/settings.xml; \
	if [ -n "$$url" ]; then mirror=(-s $$settings); { \
	  echo "<settings><mirrors><mirror><id>waterclock</id><mirrorOf>*</mirrorOf>"; \
	  echo "<url>$$(sed 's/&/\&amp;/g' <<<"$$url")</url></mirror></mirrors></settings>"; } > $$settings; fi; \
	mvn --batch-mode --quiet -Dstyle.color=never "$${mirror[@]}" -f compose/pom.xml dependency:copy-dependencies \
	  -DoutputDirectory='$${project.build.directory}/fetching' | sed -e "s/$$(printf '\033')\[[0-9;]*m//g" -e '/^$$/d'
	@for server in kafka cassandra; do ( cd compose/$$server/target; \
	  if [ -d lib ]; then mv lib old; fi; mv fetching lib; rm -rf old ); done
	@touch $@

# Using it -----------------------------------------------------------------------------------------------------------

demo: ## Set everything up, start it, and watch schedules fire (UNATTENDED=1: ends by itself)
	@began=$$(date +%s.%N); $(MAKE) needs; $(MAKE) --jobs=2 --output-sync=line venv jars; \
	  exec $(WATERCLOCK) demo --began-s $$began $(if $(UNATTENDED),--unattended)

# Said before anything is fetched or started: what this machine lacks, what comes over the network, what running costs.
needs:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'There is no Python 3.11 or newer called $(PYTHON): install it, or name yours: make demo PYTHON=python3'; exit 1; }
	@[ -n "$${JAVA_HOME:-}" ] || command -v java >/dev/null || { \
	  echo 'There is no Java on the PATH: install Java 17 (Debian: apt install openjdk-17-jre-headless)'; exit 1; }
	@[ -e compose/target/.jars ] || command -v mvn >/dev/null || { \
	  echo 'There is no Maven (mvn) on the PATH, which fetches the jars: install it (Debian: apt install maven)'; exit 1; }
	@[ -e $(VENV)/.runtime ] || echo 'once:    23 MB of Python packages from the index (115 MB in $(VENV))'
	@[ -e compose/target/.jars ] || echo 'once:    121 MB of jars of Kafka and Cassandra from Maven (kept in ~/.m2 as well)'
	@echo 'running: 1.8 GB of memory; data in .waterclock; ports 9092, 9042 and 8080, or others where they are taken'

up: ## Start the local stack; Ctrl-C stops it
	@$(MAKE) needs
	@$(MAKE) --jobs=2 --output-sync=line venv jars
	@exec $(WATERCLOCK) up

down: venv ## Stop it from elsewhere (PURGE=1: and delete its data)
	@exec $(WATERCLOCK) down $(if $(PURGE),--purge)

# Checking it --------------------------------------------------------------------------------------------------------

check: venv-dev ## Linters, types, layers, tidiness: under a minute
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy waterclock $(ROLES) bench
	@$(VENV)/bin/lint-imports --no-logo
	@$(PY) -m pytest --quiet tests/test_tidy.py

test-fast: venv-dev ## Tests without servers: unit, property, simulation, the ports in memory
	@$(PY) -m pytest --quiet -m 'not servers' tests/unit tests/property tests/simulation tests/conformance

# One run of pytest in two lanes (tests/lanes.py): the servers start once. tests/minutes.py prints each part's minutes.
test: export CI := true
test: ## Everything, on real servers: check, then all tests and the short form of every acceptance check
	@began=$$(date +%s); $(MAKE) --jobs=2 --output-sync=line compiled jars; \
	  ready=$$(date +%s); $(MAKE) --jobs=2 --output-sync=target archives check; \
	  export WATERCLOCK_TEST_PARTS="setting up:$$((ready - began)),check:$$(($$(date +%s) - ready))"; \
	  exec $(PY) -m pytest --quiet -p tests.minutes -p tests.lanes -n 2 --max-worker-restart=0 \
	    tests/unit tests/property tests/simulation tests/conformance tests/integration tests/browser tests/acceptance

show: ## List the acceptance checks, or run one whole: make show NAME=dispatcher-kill
	@$(MAKE) --jobs=2 --output-sync=line compiled jars
	@exec $(PY) -m tests.acceptance $(NAME)

chaos: ## Real servers under a seeded schedule of faults, 3 minutes of it; as the check: MINUTES=63 RUNS_PER_S=90 SEED=...
	@$(MAKE) --jobs=2 --output-sync=line compiled jars
	@exec $(PY) -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(if $(RUNS_PER_S),--runs-per-s $(RUNS_PER_S))

bench: ## Measure what make show NAME=bench-... holds bars against, whole: hours (NAMES="burst herd": some of it)
	@$(MAKE) --jobs=2 --output-sync=line compiled jars
	@exec $(PY) -m tests.bench $(NAMES)

bench-peers: ## Measure the systems that people would pick instead: ROUNDS=1, ONLY="arq temporal", SMOKE=1
	@exec $(PYTHON) -m bench.peers $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(SMOKE),--smoke)

bench-plots: ## Draw docs/img/*.svg and the table of docs/performance.md from bench/results
	@exec $(PYTHON) -m bench.plots

# Releasing it -------------------------------------------------------------------------------------------------------

wheel: venv-dev ## Build the wheel, and try it in an empty environment
	@rm -rf build dist && mkdir -p build/elsewhere
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@$(PYTHON) -m venv build/wheel-venv
	@build/wheel-venv/bin/python -m pip --disable-pip-version-check --quiet install dist/*.whl
	@cd build/elsewhere && ../wheel-venv/bin/python ../../tests/wheel.py
	@ls -l dist/*.whl

release-schemas: ## Freeze schemas/ as release N: make release-schemas N=2
	@test -n "$(N)" || { echo 'say which: make release-schemas N=<the next number>'; exit 2; }
	@test ! -e schemas/released/$(N) || { echo 'release $(N) is frozen already'; exit 2; }
	@mkdir schemas/released/$(N) && cp schemas/avro/*.avsc schemas/released/$(N)/
	@cd schemas/cassandra && sha256sum *.cql > ../released/cassandra.sha256

clean: ## Delete what was built and cached (keeps .venv, jars and the stack's data)
	@rm -rf build compiled/build compiled/build.log compiled/*.egg-info dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find $(ROLES) waterclock schemas tests -name __pycache__ -type d -prune -exec rm -rf {} +
