# Two commands: `make demo` and `make test`. Both make .venv and install on first use.
PYTHON ?= python3
SEED ?= 0
SEEDS ?= 11 12 13
BIN := .venv/bin
STAMP := .venv/installed
# One BLAS and one XLA thread for each of the two test workers.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NPROC=1 MPLBACKEND=Agg MASGRAD_SEED=$(SEED)
# Most of a test's time is compiling: equal programs are compiled once, also by the other worker.
TEST_ENV += JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/xla JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
TEST_ENV += JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

.PHONY: demo test test-all lint bench bench-roots bench-theory bench-experiments bench-fit bench-digits bench-penalties bench-wide bench-panels bench-startup bench-fits-on-dask bench-runs-on-dask bench-scale bench-nonconvex campaign coverage coverage-penalties coverage-landscape coverage-panels clean

demo: $(STAMP)
	$(BIN)/masgrad fit
	$(BIN)/masgrad paper logistic --out demo

# Compiling with fewer optimisations takes a fifth of the time off; test-all compiles as users do.
test: TEST_ENV += XLA_FLAGS=--xla_backend_optimization_level=1
test: lint
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal --durations=15 -m "not long"

test-all: lint
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(STAMP)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/fit.py --seeds $(SEEDS) --page benchmarks/fit.md

bench-roots: $(STAMP)
	$(BIN)/python benchmarks/roots.py

bench-theory: $(STAMP)
	$(BIN)/python benchmarks/theory.py

bench-experiments: $(STAMP)
	$(BIN)/python benchmarks/experiments.py

bench-fit: $(STAMP)
	$(BIN)/python benchmarks/fit.py --seeds $(SEEDS) --page benchmarks/fit.md

bench-digits: $(STAMP)
	$(BIN)/python benchmarks/digits.py

bench-penalties: $(STAMP)
	$(BIN)/python benchmarks/penalties.py

bench-fits-on-dask: $(STAMP)
	$(BIN)/python benchmarks/fits_on_dask.py --seeds $(SEEDS)

bench-runs-on-dask: $(STAMP)
	$(BIN)/python benchmarks/runs_on_dask.py

bench-scale: $(STAMP)
	$(BIN)/python benchmarks/scale.py

bench-startup: $(STAMP)
	$(BIN)/python benchmarks/startup.py

bench-nonconvex: $(STAMP)
	$(BIN)/python benchmarks/nonconvex.py --seed $(SEED) --seeds 8 --page benchmarks/nonconvex.md

bench-wide: $(STAMP)
	$(BIN)/python benchmarks/wide.py --seed $(SEED) --page benchmarks/wide.md

bench-panels: $(STAMP)
	$(BIN)/python benchmarks/panels.py --seeds $(SEEDS) --page benchmarks/panels.md

campaign: $(STAMP)
	$(BIN)/python benchmarks/campaign.py --seed $(SEED) --page benchmarks/campaign.md

coverage: $(STAMP)
	$(BIN)/python benchmarks/fits_coverage.py

coverage-penalties: $(STAMP)
	$(BIN)/python benchmarks/penalties_coverage.py

coverage-landscape: $(STAMP)
	$(BIN)/python benchmarks/landscape.py

coverage-panels: $(STAMP)
	$(TEST_ENV) $(BIN)/python benchmarks/panels_coverage.py --page benchmarks/panels_coverage.md

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $(STAMP)

clean:
	rm -rf .venv demo
