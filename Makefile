# make run     install kstoolkit into .venv, run the main job on the bundled sample, write out/report.html
# make test    install what the tests need, run all of them but the longest
# make test-long   run the longest, as twenty kills, and try properties on more examples
# make bench   compare the rates and the memory of the main job with its rivals; then bench-keys,
#              how long a checkup of 69 RocksDBs takes, what-if of a million users' day, and alerts
# make bench-peers  ours beside Kafka Streams, Flink, Spark and DuckDB on the same events, killed midway
# make bench-growth  how cost grows with users, actions, buckets, time and events: half an hour
# make bench-keys  what keys of several columns cost, and sessions, beside one action
# make soak    two live runs, while files, clocks and kills misbehave: some minutes
# make bench-worlds  false alarms and recall in worlds of other laws than the detector's
# make bench-years  make the folder of a month of batches, and ask it
# make lab     open JupyterLab on the notebooks
# make notebooks   run all notebooks again, and keep their outputs
# make docs    build the pages in docs/ into docs/_build/html; a broken link fails it
# make lint    style and types
# make clean   remove what the above made
#
# Another Python:           make run PYTHON=/path/to/python3.12
# Some of the tests:        make test TESTS="tests/test_units.py -k bytes"
# All tests, one by one:    make test PROCESSES=1
# Options for the bench:    make bench BENCH="--events 1000000"
# Options for the soak:     make soak SOAK="--batches 2000 --kills 50"

PYTHON ?= python3
TESTS ?=
# Many tests wait: for a broker, for a browser, for what was killed. Three files at once fill that time
# of two cores; with four, ten files of tests took 16 % more CPU time than with two.
PROCESSES ?= 3
BENCH ?=
SOAK ?=
BIN := .venv/bin
PAGES := docs/_build/html
INSTALLED := $(addprefix installed,-for-all -for-docs -for-lab -for-tests) installed
TOGETHER = --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder --durations=20
FIRST_NOTEBOOK := notebooks/1_who_is_abnormal.ipynb
# In a container there is often nobody but root.
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Hundreds of processes begin here: what one has compiled, the next ones need not. Nor would a user's:
# without it, benchmarks measured how long Python compiles.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-long bench bench-peers bench-growth bench-keys bench-worlds bench-years soak lab notebooks docs lint clean chromium alertmanager jdk classes compiled
.PHONY: $(INSTALLED)
.DELETE_ON_ERROR:

run: installed
	$(BIN)/kstoolkit run data/sample --event-time time --user user --action action --out out
	$(BIN)/kstoolkit incidents out
	$(BIN)/kstoolkit report out --html out/report.html

test: installed-for-tests chromium alertmanager jdk classes
	$(BIN)/python -m pytest $(if $(TESTS),$(TESTS),$(TOGETHER) -m "not long")

test-long: installed-for-tests chromium alertmanager jdk classes
	$(BIN)/python -m pytest $(TOGETHER) -m "(long or hypothesis) and not alone" --hypothesis-profile=thorough
	$(BIN)/python -m pytest -m alone

bench: installed-for-tests chromium
	$(BIN)/python -m tests.benchmarks $(BENCH)
	$(BIN)/python -m tests.benchmarks.keys
	$(BIN)/python -m tests.benchmarks.checkup
	$(BIN)/python -m tests.benchmarks.capacity
	$(BIN)/python -m tests.benchmarks.whatif
	$(BIN)/python -m tests.benchmarks.alerts
	$(BIN)/python -m tests.benchmarks.panels

# The rivals in Java are compiled; their jars come from the public Maven repository, once.
bench-peers: installed-for-tests jdk
	$(BIN)/python -m tests.benchmarks.peers --plot docs/peers.png $(BENCH)

# Some gigabytes of events at a time, which go again.
bench-growth: installed-for-tests
	$(BIN)/python -m tests.benchmarks.growth $(BENCH)

bench-keys: installed-for-tests
	$(BIN)/python -m tests.benchmarks.keys $(BENCH)

soak: installed-for-tests
	$(BIN)/python -m tests.pipeline.soak $(SOAK)

bench-worlds: installed-for-tests
	$(BIN)/python -m tests.benchmarks.worlds $(BENCH)

bench-years: installed-for-tests
	$(BIN)/python -m tests.benchmarks.years $(BENCH)

lab: installed-for-lab
	$(BIN)/jupyter lab $(ALLOW_ROOT) --notebook-dir=. $(FIRST_NOTEBOOK)

notebooks: installed-for-tests
	$(BIN)/python -m tests.notebooks

# Strictly: a broken link, or a public name without a page, is an error.
docs: installed-for-docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet docs $(PAGES)
	@echo "Open $(PAGES)/index.html"

lint: installed-for-tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

clean:
	rm -rf .venv out runs build dist docs/_build docs/notebooks docs/reference
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each kind of installation leaves the pyproject.toml that it was made from, as those do that it
# brings along. While that is still the same, nothing is installed again, and no network is needed.

installed-for-lab: EXTRAS := [notebooks]
installed-for-lab: BRINGS := installed
installed-for-docs: EXTRAS := [docs]
installed-for-docs: BRINGS := installed installed-for-lab
installed-for-tests: EXTRAS := [test]
installed-for-tests: BRINGS := installed installed-for-lab
installed-for-all: EXTRAS := [docs,test]
installed-for-all: BRINGS := installed installed-for-docs installed-for-lab installed-for-tests

$(INSTALLED): $(BIN)/python
	@cmp -s pyproject.toml .venv/$@.toml || { \
		$(BIN)/python -m pip install --editable '.$(EXTRAS)' && \
		for kind in $@ $(BRINGS); do cp pyproject.toml .venv/$$kind.toml || exit 1; done; }

# The browser tests drive the system's Chromium.
chromium: installed-for-tests
	@$(BIN)/python -m tests.browser.chromium

# Alerts are sent to a real Alertmanager.
alertmanager: installed-for-tests
	@$(BIN)/python -m tests.alertmanager

# The setters that are written for Kafka Streams are compiled and used.
jdk: installed-for-tests
	@$(BIN)/python -m tests.jdk

# Spark of the tests starts in less time once they are there.
classes: installed-for-tests
	@test .venv/spark/classes.jsa -nt .venv/installed-for-tests.toml || $(BIN)/python -m tests.quickjava

# Looked through once, the tests are compiled, and each of several processes need not do it.
compiled: installed-for-tests
	@$(BIN)/python -m pytest --collect-only --quiet > /dev/null

# A new pip finds out what to install in half the time of those that Pythons bring along.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "kstoolkit needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv --upgrade-deps .venv || { rm -rf .venv; exit 1; }
