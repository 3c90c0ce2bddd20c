# The two commands of the README are `make demo` and `make test`; each sets up what it needs first.

VENV := .venv
BIN := $(VENV)/bin
DEMO_STATE ?= .nadi/demo
# More options of pytest, as in `make test ARGS="-n 2 tests/io"`.
ARGS ?=
# What `make quick` compares with; how often `make flakes` runs all tests, and which.
BASE ?= main
ROUNDS ?= 2
PART ?= tests
# The comparison with Siddhi itself, which is not part of the project, and how many random apps of which seed it takes.
DIFFERENTIAL ?= ../shared/differential
CASES ?= 300
SEED ?= 1
# Names of families, theirs or ours in tests/differential/families; all of them without.
FAMILIES ?=

# Tests start hundreds of processes: none compiles modules that another one has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick touched flakes generated test-all archive quicker lint types layers format docs java clean bench kafka cluster datacentres pair lock differential

demo: $(VENV) java
	$(BIN)/python examples/flights/demo.py --state-dir $(DEMO_STATE)

test: $(VENV) java
	@$(MAKE) --no-print-directory -j 2 lint types layers quicker
	$(BIN)/python -m tests.suites test -- $(ARGS)

test-all: $(VENV) java archive lint types layers
	$(BIN)/python -m pytest -m ""

# The tests that a change touches, in about a minute.
quick: $(VENV) java
	@$(MAKE) --no-print-directory -j 4 lint types layers touched

touched: $(VENV) java
	$(BIN)/python -m tests.suites.quick --base $(BASE)

# Tests that depend on chance, as in `make flakes ROUNDS=10 PART="tests/io tests/server"`.
flakes: $(VENV) java quicker
	$(BIN)/python -m tests.suites.flakes --rounds $(ROUNDS) $(PART)

# More cases of each generated test than a run has seconds for, as in `make generated CASES=60`: ten minutes for each 60.
generated: $(VENV) java
	NADI_GENERATE=$(CASES) $(BIN)/python -m pytest -n 2 -m "generated and not long" --timeout 3600 $(PART)

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

# Needs Java and Maven.
differential: $(VENV)
	@test -f "$(DIFFERENTIAL)/run.py" || { echo "The comparison with Siddhi is not in $(DIFFERENTIAL): say where it is with DIFFERENTIAL=<folder>"; exit 1; }
	PYTHONPATH=src:. $(BIN)/python tests/differential/compare.py "$(DIFFERENTIAL)" --cases $(CASES) --seed $(SEED) --families "$(FAMILIES)"

bench: $(VENV) java
	$(BIN)/python bench/run.py --suite pipeline --json bench/results.json

kafka: $(VENV) java
	$(BIN)/python examples/kafka/broker.py

cluster: $(VENV) java
	$(BIN)/python examples/cluster/run.py

pair: $(VENV) java
	$(BIN)/python examples/ha/run.py

datacentres: $(VENV) java
	$(BIN)/python examples/datacentres/run.py

java:
	@scripts/ensure-java

# Half a minute once, and half the processor time of each start of Java: `make test` has dozens.
archive: $(VENV) java
	@$(BIN)/nadi prepare

# Where it cannot be made, tests take longer.
quicker: $(VENV) java
	-@$(BIN)/nadi prepare

$(VENV): requirements.lock pyproject.toml
	@scripts/make-venv "$(VENV)"
	@touch $(VENV)

lock:
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --group docs --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --quiet -o requirements.lock

clean:
	rm -rf $(VENV) .nadi .pytest_cache .mypy_cache .ruff_cache
