# Two commands do everything on a fresh machine: `make reproduce` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported, not when they are installed: they must be kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help reproduce screenshots docs gallery notebooks test test-slow types coverage attack test-roundings test-integrations format bench bench-svm bench-layers bench-learned meta-train bench-trace bench-optim clean

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

# The stamp depends on what is installed, so that a changed pyproject.toml installs again.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[dev]" -c constraints.txt
	touch $@

reproduce: $(VENV)/installed  ## the paper's experiments beside tuned baselines: report/index.html
	$(BIN)/fwnet reproduce --profile quick --out report

screenshots: $(VENV)/installed  ## look at report/ in headless Chromium: light, dark, phone, print
	$(BIN)/python tools/screenshots.py report --out report/screenshots

docs: $(VENV)/installed  ## the site in site/, built strictly, opened in a browser
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]" -c constraints.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m webbrowser site/index.html

gallery: $(VENV)/installed  ## draw the gallery's pictures anew (FWNET_DATA for MNIST and graphs)
	$(BIN)/python tools/gallery.py

notebooks: $(VENV)/installed  ## run the five notebooks, in the order of their names
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[notebooks]" -c constraints.txt
	OMP_NUM_THREADS=1 $(BIN)/python tools/notebooks.py

test: $(VENV)/installed  ## format, lint, tests, examples in README and docstrings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@# First, each core its half of the machine code: two workers would compile the same functions.
	$(BIN)/fwnet warm-up svm layers >/dev/null & $(BIN)/fwnet warm-up solvers learned >/dev/null; wait
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

types: $(VENV)/installed  ## mypy over src, tests, benchmarks, examples
	$(BIN)/mypy

test-slow: $(VENV)/installed  ## the other tests: several processes, devices, trainings, docs/, examples/
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow

coverage: $(VENV)/installed  ## the tests with branch coverage: a table, and htmlcov/index.html
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/test_docs.py \
		--cov=fwnet --cov-branch --cov-report=term:skip-covered --cov-report=html

attack: $(VENV)/installed  ## the laws of tests/laws on 20,000 random cases, at most an hour; SEED=1 draws others
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.laws --cases 20000 --minutes 60 --seed $(or $(SEED),0)

test-roundings: $(VENV)/installed  ## the tests as other processors round: plain kernels, AVX2, AVX-512, threads
	$(BIN)/python tools/roundings.py -n 2 --dist worksteal -m "not slow"

test-integrations: $(VENV)/installed  ## the recipes of docs/training-loops.md, in the libraries they name
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[integrations]" -c constraints.txt
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:xdist integrations

format: $(VENV)/installed  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/installed  ## measure against peers, print ratios, write benchmarks/results/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt -c constraints.txt
	$(BIN)/python -m benchmarks

bench-svm: $(VENV)/installed  ## FWSVC against scikit-learn, and other peers if installed
	$(BIN)/python -m benchmarks.svm

bench-layers: $(VENV)/installed  ## SimplexQP and SVMLayer against other QP layers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/layers/requirements.txt -c constraints.txt
	$(BIN)/python -m benchmarks.layers

bench-learned: $(VENV)/installed  ## learned optimizers against tuned hand-designed ones
	$(BIN)/python -m benchmarks.learned

meta-train: $(VENV)/installed  ## train the shipped controllers anew, seeded
	$(BIN)/python -m fwnet.lab.recipes

bench-trace: $(VENV)/installed  ## the trace-norm ball: races, oracle, optimizers, workers (FWNET_DATA for MNIST)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.trace
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.trace.optimizer
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.trace.distributed --rows 4096 --steps 5

bench-optim: $(VENV)/installed  ## FrankWolfe beside AdamW, Muon and Scion on four networks (FWNET_DATA for MNIST, CIFAR-10)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.optim

clean:
	rm -rf $(VENV) report runs build dist site htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache
