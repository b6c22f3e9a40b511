# Two commands do everything on a fresh machine: `make demo` and `make test`. Each target calls a script.
PYTHON ?= python3
NATIVE := $(shell find framework/native -type f) CMakeLists.txt pyproject.toml

.PHONY: demo ctr-demo ernie-demo test test-native test-aarch64 test-slow test-lowest test-peers lint types package bench sanitize fuzz docs site lock clean

demo: .venv/paddock-setup
	scripts/demo

ctr-demo: .venv/paddock-setup
	scripts/ctr_demo $(if $(SECONDS),--seconds $(SECONDS)) $(ARGUMENTS)

ernie-demo: .venv/paddock-tests
	.venv/bin/python scripts/ernie_demo $(ARGUMENTS)

# pytest-xdist 3.8 waits for ever after a worker that died and was replaced (--dist loadfile): none is replaced.
test: .venv/paddock-tests
	.venv/bin/python -m pytest -m "not slow and not peers and not emulated" --numprocesses auto --maxprocesses 4 --dist loadfile \
	  --max-worker-restart 0 $(ARGUMENTS)

test-native: .venv/paddock-tests
	.venv/bin/python -m pytest tests/framework/predictor tests/suites/test_native_predictor.py \
	  tests/suites/test_native_pictures.py tests/suites/test_native_texts.py tests/suites/test_native_charsmap.py \
	  tests/suites/test_native_rows.py tests/suites/test_native_slots.py tests/examples/test_native.py tests/examples/test_native_rows.py tests/examples/test_java.py $(ARGUMENTS)

test-aarch64: .venv/paddock-tests
	.venv/bin/python -m pytest -m emulated --in-ci tests/framework/native $(ARGUMENTS)

test-slow: .venv/paddock-tests
	scripts/test_slow

test-lowest: .venv/paddock-setup
	scripts/test_lowest

test-peers: .venv/paddock-tests
	scripts/test_peers $(ARGUMENTS)

lint: .venv/paddock-lint
	scripts/lint

types: .venv/paddock-tests
	.venv/bin/python -m mypy

package: .venv/paddock-setup
	scripts/package

bench: .venv/paddock-setup
	scripts/bench $(if $(PEER_PYTHON),--peer-python $(PEER_PYTHON))

sanitize: .venv/paddock-tests
	scripts/sanitize $(ARGUMENTS)

fuzz: .venv/paddock-tests
	scripts/fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

docs: .venv/paddock-setup
	.venv/bin/python tools/op_docs.py
	.venv/bin/python tools/results.py

site: .venv/paddock-tests
	.venv/bin/python -m tools.docs_site

lock:
	scripts/lock

.venv/paddock-setup: $(NATIVE) scripts/setup requirements/run.txt requirements/build.txt
	PYTHON=$(PYTHON) scripts/setup

.venv/paddock-lint: scripts/setup requirements/lint.txt
	PYTHON=$(PYTHON) scripts/setup lint

.venv/paddock-tests: .venv/paddock-setup requirements/test.txt requirements/source.txt
	scripts/setup tests

clean:
	rm -rf .venv build runs dist
