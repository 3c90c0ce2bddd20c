# The two commands of the README are `make demo` and `make test`; each sets up what it needs first.

VENV := .venv
BIN := $(VENV)/bin
DEMO_STATE ?= .nadi/demo
WORKERS ?= 2

.PHONY: demo test test-all archive lint types layers format docs java clean bench kafka lock

demo: $(VENV) java
	$(BIN)/python examples/flights/demo.py --state-dir $(DEMO_STATE)

test: $(VENV) java
	@$(MAKE) --no-print-directory -j 2 lint types layers
	$(BIN)/python -m pytest -n $(WORKERS)

test-all: $(VENV) java archive lint types layers
	$(BIN)/python -m pytest -m ""

# One target per checker, so that each can be run alone.
lint: $(VENV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)
	$(BIN)/mypy

layers: $(VENV)
	$(BIN)/lint-imports --no-cache

format: $(VENV)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(VENV)
	$(BIN)/mkdocs build --strict

bench: $(VENV) java
	$(BIN)/python bench/run.py --suite pipeline --json bench/results.json

kafka: $(VENV) java
	$(BIN)/python examples/kafka/broker.py

java:
	@scripts/ensure-java

# Most of a minute once, five seconds off each start of Spark: `make test` starts it too seldom.
archive: $(VENV) java
	@$(BIN)/nadi prepare

$(VENV): requirements.lock pyproject.toml
	@scripts/make-venv "$(VENV)"
	@touch $(VENV)

lock:
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --group docs --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --quiet -o requirements.lock

clean:
	rm -rf $(VENV) .nadi .pytest_cache .mypy_cache .ruff_cache
