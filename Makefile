# Everything starts here. `make` alone lists the targets.
# PYTHON=python3.12 chooses the interpreter; TESTS and PYTEST_FLAGS narrow `make test`.

PYTHON ?=
VENV := .venv
STAMP := $(VENV)/.intonaco-setup
TESTS ?= tests
PYTEST_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

setup: $(STAMP) ## Create .venv and install the project with pinned versions

$(STAMP): pyproject.toml constraints.txt scripts/setup
	@scripts/setup "$(VENV)" "$(PYTHON)"
	@touch $@

demo: setup ## Draw, edit, and edit privately over an emulated link, into out/
	@$(VENV)/bin/intonaco demo --output out

test: setup ## Run the tests
	@$(VENV)/bin/python -m pytest $(TESTS) $(PYTEST_FLAGS) < /dev/null

check: setup ## Format, lint, import order, types, unit tests
	@scripts/check

bench: setup ## Run every benchmark; the last line of each is JSON
	@scripts/bench

clean: ## Remove .venv and what the demo wrote
	rm -rf $(VENV) out
