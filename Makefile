# Everything a newcomer or CI needs. `make demo`, `make test` and `make serve` set up .venv first and are quick when nothing
# changed.
.DEFAULT_GOAL := demo
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Everything, and the few packages of a demo or a server.
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
SERVE := $(VENV)/.serve
# Only checks and tests need torch (the train extra); the demo and the rest of the library do without.
TORCH := $(VENV)/.torch
# LangChain and Haystack with the test suites that they publish, in an environment of their own for their plugins of pytest.
FRAMEWORKS := build/frameworks
SUITES := $(FRAMEWORKS)/.suites
FRAMEWORK_TESTS := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(FRAMEWORKS)/bin/python -m pytest -q \
  -p no:asyncio -p no:benchmark -p no:codspeed -p no:socket -p no:recording
SOURCES := $(shell find src cpp -name '*.py' -o -name '*.pyi' -o -name '*.cpp' -o -name '*.h') $(shell find src/interlace/serve/page -type f) CMakeLists.txt pyproject.toml README.md
# The emulated level lets machines without AVX-512 VBMI test its logic; wheels for users are built without it.
INSTALL := $(BIN)/pip install --disable-pip-version-check --quiet --no-build-isolation

.PHONY: help demo serve test docs notebooks explore check bench bench-cache report stub sanitize tsan levels faults serve-faults serve-soak serve-browser cluster ray-faults bench-ray fuzz conformance wheels release-check clean

help:  ## this list
	@grep -E '^[a-z-]+:.*  ## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*  ## (.*)$$/make \1\t\2/' | expand -t 20

demo: $(DEMO)  ## learn and search a small data set, print one table, write a plot
	$(BIN)/interlace demo --out interlace-demo

# A server with a collection of digits and their images; the page is at the address that it prints.
PORT ?= 6333
serve: $(SERVE)  ## a server with a demo collection and its page (PORT=6333)
	$(BIN)/interlace serve --demo interlace-demo/stores --port $(PORT) --log-level warning

test: check $(SUITES)  ## lint, types and all tests
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto
	$(FRAMEWORK_TESTS) tests/integrations/test_conformance.py tests/integrations/test_adapters.py \
	  tests/integrations/test_adapter_errors.py

# The same tests with other examples for all properties, drawn anew each time.
explore: $(STAMP) $(TORCH)  ## the tests with other random examples
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --hypothesis-profile=explore

# The documentation site in build/docs; warnings and broken links are errors. Nothing is fetched.
docs: $(STAMP)  ## the documentation site in build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	$(BIN)/python docs/_ext/check_site.py build/docs

# Takes about a minute; a test runs them without storing anything.
notebooks: $(STAMP) $(TORCH)  ## run the notebooks of docs/notebooks and store their outputs
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python scripts/notebooks.py

check: $(STAMP) $(TORCH)  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(shell find cpp -name '*.cpp' -o -name '*.h')

# On the data of ../shared/data or $$INTERLACE_DATA where there is some, on generated data otherwise; resumes.
# Our indexes and those of the peers are built first and kept in the user's cache; that may run on a busy machine, times not.
bench: bench-cache  ## all comparisons with the peers, on an idle machine (hours)
	$(BIN)/python benchmarks/peers.py --resume
	$(BIN)/python benchmarks/partitions.py --resume
	$(BIN)/python benchmarks/growth.py --resume
	$(BIN)/python benchmarks/agreement.py --resume
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/fixed_cost.py
	$(BIN)/python benchmarks/long_codes.py --resume
	$(BIN)/python benchmarks/fitting.py
	$(BIN)/python benchmarks/building.py
	$(BIN)/python benchmarks/exact_cells.py
	$(BIN)/python benchmarks/rerank.py
	$(BIN)/python benchmarks/coding.py
	$(BIN)/python benchmarks/text_codes.py
	$(BIN)/python benchmarks/report.py --readme README.md

bench-cache: $(STAMP)  ## build the indexes of the comparisons
	$(BIN)/python benchmarks/partitions.py --build
	$(BIN)/python benchmarks/growth.py --build
	$(BIN)/python benchmarks/coding.py --build

report: $(STAMP)  ## benchmarks/RESULTS.md and the tables of README.md and docs/distributed.md from the JSON
	$(BIN)/python benchmarks/report.py --readme README.md
	$(BIN)/python benchmarks/cluster_tables.py

# The stub of the native module; a test compares it with the module.
stub: $(STAMP)  ## regenerate the stub of the native module
	$(BIN)/python -m nanobind.stubgen -q -m interlace._native -o src/interlace/_native.pyi

# The tests that reach native code, under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(STAMP)  ## native tests under AddressSanitizer
	$(INSTALL) --no-deps --upgrade --target build/sanitized . -C build-dir=build/asan \
	  -C cmake.define.INTERLACE_SANITIZE=ON -C cmake.define.INTERLACE_EMULATE_AVX512=ON
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc PYTHONPATH=build/sanitized \
	  $(BIN)/python -m pytest -q -p no:cacheprovider tests/engine/test_kernels.py tests/engine/test_search.py \
	  tests/engine/test_segments.py tests/engine/test_cells.py tests/engine/test_filters.py tests/engine/test_range_search.py \
	  tests/engine/test_searches.py tests/engine/test_limits.py tests/codec/test_encode.py tests/codec/test_rounding.py \
	  tests/index/test_ids.py tests/index/test_index.py tests/test_magnitudes.py tests/test_interrupts.py

# Many threads of Python at once, under ThreadSanitizer. It sees what the native module does, and the locks of Python and
# NumPy, which are not built for it; its run-time does not like addresses that are too random (setarch -R).
tsan: $(STAMP)  ## thread tests under ThreadSanitizer
	$(INSTALL) --no-deps --upgrade --target build/threads . -C build-dir=build/tsan -C cmake.define.INTERLACE_TSAN=ON
	LD_PRELOAD="$$(g++ -print-file-name=libtsan.so) $$(g++ -print-file-name=libstdc++.so)" OPENBLAS_NUM_THREADS=1 \
	  TSAN_OPTIONS="halt_on_error=1 exitcode=66" PYTHONPATH=build/threads \
	  setarch -R $(BIN)/python -m pytest -q -p no:cacheprovider tests/test_threads.py tests/test_interrupts.py

# A writer of a store killed a thousand times, a disk that fails at every call, a power cut after each of them.
FAULTS ?= --kills 1000
faults: $(STAMP)  ## kill a store writer a thousand times
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/store/faults.py $(FAULTS)

# A server killed 200 times while clients write and search; and 200 kills of any process of one with workers.
SERVE_FAULTS ?= --kills 200
serve-faults: $(STAMP)  ## kill a server 200 times
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/serve/serve_chaos.py $(SERVE_FAULTS)
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/serve/serve_chaos.py $(SERVE_FAULTS) --workers 2

# 100,000 requests, good and bad: memory and descriptors of a server must not grow.
SERVE_SOAK ?= --requests 100000
serve-soak: $(STAMP)  ## 100,000 requests: memory and descriptors of a server
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/serve/serve_soak.py $(SERVE_SOAK)

# The page in Chromium, also with a million rows. Where Playwright or Chromium is missing, `make test` skips these tests.
serve-browser: $(STAMP)  ## the page of the server in a browser
	$(BIN)/python -c "import playwright" 2> /dev/null || $(BIN)/pip install --disable-pip-version-check --quiet playwright
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -rs tests/serve/page

# Three Ray nodes on the loopback interface: builds, searches, kills an actor and a node, and prints a table.
CLUSTER ?= --rows 2000000 --results benchmarks/results
cluster: $(STAMP)  ## three Ray nodes on this machine, two kills, a table
	$(BIN)/python benchmarks/cluster_demo.py $(CLUSTER)

# Actors and nodes of such a cluster killed at random instants while an index is built and searched.
RAY_FAULTS ?= --actors 50 --nodes 10 --builds 6 --results benchmarks/results
ray-faults: $(STAMP)  ## kill actors and nodes of a Ray cluster
	PYTHONPATH=benchmarks $(BIN)/python tests/ray/ray_chaos.py $(RAY_FAULTS)

# What Ray costs on one machine; times, so nothing else should run.
BENCH_RAY ?= --data sift300k
bench-ray: $(STAMP)  ## what Ray costs on one machine
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/cluster.py $(BENCH_RAY)

# Bad files for every reader, for a minute; a second one led by what they reach where atheris (the fuzz extra) is installed.
FUZZ ?= --seconds 60
fuzz: $(STAMP) $(TORCH)  ## damaged files for every reader, for a minute
	PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz.py $(FUZZ)
	if $(BIN)/python -c "import atheris" 2> /dev/null; then PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz_atheris.py $(FUZZ); fi

# Every kernel of every level: the same bits as scalar (for aarch64 under qemu where both are installed), and no slower
# than at the level below. Without Python; compiled with the flags of CMakeLists.txt.
LEVELS := cpp/simd/dispatch.cpp cpp/simd/scalar.cpp
CXX20 := -std=gnu++20 -O3 -ffp-contract=off -Wall -Wextra
AVX512 := -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vbmi -mavx512vbmi2 -mavx512vnni -mprefer-vector-width=512 -Wno-uninitialized
X86 := -DINTERLACE_HAVE_AVX2 -DINTERLACE_HAVE_AVX512 $(LEVELS) build/levels/avx2.o build/levels/avx512.o
levels:  ## every kernel of every SIMD level against scalar
	mkdir -p build/levels
	if [ "$$($(CXX) -dumpmachine | cut -d- -f1)" = x86_64 ]; then \
	  $(CXX) $(CXX20) -mavx2 -mf16c -c cpp/simd/avx2.cpp -o build/levels/avx2.o && \
	  $(CXX) $(CXX20) $(AVX512) -c cpp/simd/avx512.cpp -o build/levels/avx512.o && \
	  $(CXX) $(CXX20) -Wno-psabi cpp/tests/levels_test.cpp cpp/tests/emulated_avx512.cpp $(X86) -o build/levels/test && \
	  $(CXX) $(CXX20) cpp/tests/levels_bench.cpp $(X86) -o build/levels/bench; \
	else \
	  $(CXX) $(CXX20) -DINTERLACE_HAVE_NEON cpp/tests/levels_test.cpp $(LEVELS) cpp/simd/neon.cpp -o build/levels/test && \
	  $(CXX) $(CXX20) -DINTERLACE_HAVE_NEON cpp/tests/levels_bench.cpp $(LEVELS) cpp/simd/neon.cpp -o build/levels/bench; \
	fi
	build/levels/test
	if command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64 > /dev/null; then \
	  aarch64-linux-gnu-g++ $(CXX20) -static -DINTERLACE_HAVE_NEON cpp/tests/levels_test.cpp $(LEVELS) cpp/simd/neon.cpp -o build/levels/aarch64 && \
	  qemu-aarch64 build/levels/aarch64; \
	else echo "no aarch64 compiler or qemu here: the neon level was not run"; fi
	build/levels/bench

# The adapters with all frameworks, LlamaIndex, datasets and DuckDB among them.
conformance: $(SUITES)  ## the adapters, with the suites of LangChain and Haystack
	$(FRAMEWORKS)/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints-frameworks.txt \
	  llama-index-core datasets duckdb
	$(FRAMEWORK_TESTS) tests/integrations

# Needs the Pythons it builds for, and for aarch64 a cross compiler and qemu; says what is missing. Each wheel is compiled
# twice, to compare the bytes; WHEELS= does without.
WHEELS ?= --twice --aarch64
wheels:  ## wheels and an sdist in dist/, audited and tried
	$(PYTHON) scripts/wheels.py $(WHEELS)

# See RELEASING.md. RELEASE_CHECK="--skip levels" on a machine that is not idle.
RELEASE_CHECK ?=
release-check: $(STAMP)  ## everything that must hold before a release
	$(BIN)/python scripts/release_check.py $(RELEASE_CHECK)

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist interlace-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --quiet "scikit-build-core>=0.10" "nanobind>=2.4" "cmake>=3.18" ninja
	touch $@

$(TORCH): $(VENV)/.tools constraints.txt
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt torch
	touch $@

$(STAMP): EXTRAS := dev,cli,io,bench,ray,docs
$(DEMO): EXTRAS := cli,faiss
$(SERVE): EXTRAS := cli,serve
$(STAMP) $(DEMO) $(SERVE): $(VENV)/.tools $(SOURCES)
	$(INSTALL) ".[$(EXTRAS)]" -C cmake.define.INTERLACE_EMULATE_AVX512=ON
	touch $@ $(if $(filter $(STAMP),$@),$(DEMO) $(SERVE))

$(SUITES): constraints-frameworks.txt | $(STAMP)
	test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv --system-site-packages $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --disable-pip-version-check --quiet --constraint constraints-frameworks.txt \
	  pytest langchain-core langchain-tests haystack-ai pytest-asyncio
	$(FRAMEWORKS)/bin/python -c "import site, sys; open(site.getsitepackages()[0] + '/interlace.pth', 'w').write(sys.argv[1])" \
	  "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')"
	touch $@
