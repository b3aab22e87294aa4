# Every target makes the virtual environment if it is missing and installs only when the requirements changed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# A file stays on one worker, for its shared fits; in the order of collection, in which files with slow tests come first.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
STAMP := $(VENV)/.installed
TRAINING := $(VENV)/.installed-training
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
LABEL_STUDIO := .venv-label-studio

.DEFAULT_GOAL := help
.PHONY: help install demo test coverage dist test-wheel test-label-studio lint format results bench bench-aggregation bench-training bench-scale bench-processes bench-components bench-texts bench-fit bench-update bench-threads docs pages golden vega fuzz clean test-large notebook

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

install: $(STAMP)  ## make .venv with conal and its development tools

$(TRAINING): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e ".[images,train]"
	touch $@

$(STAMP): $(TRAINING)
	$(PIP) --upgrade pip
	$(PIP) -e ".[all]" --group dev
	touch $@

demo: $(TRAINING)  ## train on the embedded data and compare with majority vote and gold labels
	$(BIN)/conal demo --out conal-demo --overwrite

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest $(WORKERS) --durations=10

coverage: $(STAMP)  ## run the tests, which takes half as long again, and report what they do not reach
	$(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term:skip-covered --cov-fail-under=90

test-large: $(STAMP)  ## run the tests that take minutes: exports of all methods and networks, tables of the last release
	$(BIN)/python -m pytest -m large

dist: $(STAMP)  ## build the wheel and the source distribution in dist/
	rm -rf dist build
	$(BIN)/python -m build --quiet

test-wheel: dist  ## install the wheel in an empty environment outside of the checkout, and run it there
	$(BIN)/python tools/check_wheel.py

test-label-studio: $(STAMP) $(LABEL_STUDIO)/.installed  ## follow docs/guides/label-studio.md with a real Label Studio server (a gigabyte to install)
	LABEL_STUDIO_PROGRAM=$(LABEL_STUDIO)/bin/label-studio $(BIN)/python -m pytest tests/label_studio

$(LABEL_STUDIO)/.installed:
	$(PYTHON) -m venv $(LABEL_STUDIO)
	$(LABEL_STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check label-studio==1.23.2
	touch $@

lint: $(STAMP)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## let ruff format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

results: $(STAMP)  ## run what is missing of all studies (a night on two cores; needs the data) into studies/results/VERSION
	for study in $$($(BIN)/python -m studies | cut -d " " -f 1); do $(BIN)/python -m studies $$study --jobs 2 || exit 1; done

bench: bench-aggregation bench-training bench-components bench-scale bench-processes bench-texts bench-fit bench-update bench-threads  ## all benchmarks, and docs/performance.md from their results

bench-aggregation: $(STAMP)  ## every aggregator on every crowd and beside crowd-kit, in an hour; CROWDS=1: only the crowds
	$(if $(CROWDS),,$(BIN)/python benchmarks/aggregation.py)
	$(BIN)/python benchmarks/aggregators.py $(if $(CROWDS),--crowds)
	$(BIN)/python benchmarks/page.py

bench-training: $(STAMP)  ## an epoch of training against the plain classifier and peers
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/page.py

bench-scale: $(STAMP)  ## how cost grows with the annotations, up to a hundred million
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/page.py

bench-processes: $(STAMP)  ## what two processes send each other, against the cost model
	$(BIN)/python benchmarks/processes.py
	$(BIN)/python benchmarks/page.py

bench-components: $(STAMP)  ## parts of a training step against PyTorch's own
	$(BIN)/python benchmarks/components.py
	$(BIN)/python benchmarks/page.py

bench-update: $(STAMP)  ## updates of an aggregator against refits, in memory and as commands
	$(BIN)/python benchmarks/update.py

bench-threads: $(STAMP)  ## an epoch by one thread and by all cores, on a machine with nothing else to do
	$(BIN)/python benchmarks/threads.py
	$(BIN)/python benchmarks/page.py

bench-texts: $(STAMP)  ## `conal fit --text`, from files to the report; BESIDE=DIR for another version's src in turn
	$(BIN)/python benchmarks/texts.py $(if $(BESIDE),--beside $(BESIDE))
	$(BIN)/python benchmarks/page.py

bench-fit: $(STAMP)  ## whole fits from files to a model folder as data grow; SIZES=20000,200000,1000000 for large ones
	$(BIN)/python benchmarks/fit.py $(if $(SIZES),--sizes $(SIZES))
	$(BIN)/python benchmarks/page.py

fuzz: $(STAMP)  ## attack conal for five minutes, or MINUTES=60, or with FILES=100000 broken files; SEED=, JOBS=2
	PYTHONPATH=tests $(BIN)/python -m fuzz --jobs $(or $(JOBS),2) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(FILES),--files $(FILES)) $(if $(SEED),--seed $(SEED))

pages: $(STAMP)  ## pages that follow from the code
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/methods_reference.py
	$(BIN)/python benchmarks/page.py --text

golden: $(STAMP)  ## write the golden set of the tests again; review the difference
	PYTHONPATH=tests $(BIN)/python -m golden

vega: $(STAMP)  ## the scripts of Vega that reports contain, from the installed vl-convert
	$(BIN)/python tools/vega_bundle.py

notebook: $(STAMP)  ## execute docs/notebook.ipynb, the example notebook, which is also a page of the documentation
	$(BIN)/python tools/notebook.py

docs: pages  ## the documentation site in site/
	$(BIN)/python tools/notebook.py --page
	$(BIN)/zensical build --clean --strict

clean:  ## remove everything that make made
	rm -rf $(VENV) $(LABEL_STUDIO) build dist site src/*.egg-info conal-demo fuzz-results .coverage .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
