# Two commands do everything on a fresh machine: `make demo` and `make test`. Each target calls a script.
PYTHON ?= python3
NATIVE := $(shell find framework/native -type f) CMakeLists.txt pyproject.toml

.PHONY: demo test test-slow lint types bench sanitize fuzz docs clean

demo: .venv/paddock-setup
	scripts/demo

test: .venv/paddock-setup
	.venv/bin/python -m pytest -m "not slow"

test-slow: .venv/paddock-setup
	.venv/bin/python -m pytest -m slow

lint: .venv/paddock-setup
	scripts/lint

types: .venv/paddock-setup
	.venv/bin/python -m mypy

bench: .venv/paddock-setup
	scripts/bench $(if $(PEER_PYTHON),--peer-python $(PEER_PYTHON))

sanitize: .venv/paddock-setup
	scripts/sanitize

fuzz: .venv/paddock-setup
	scripts/fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

docs: .venv/paddock-setup
	.venv/bin/python tools/op_docs.py

.venv/paddock-setup: $(NATIVE) scripts/setup
	PYTHON=$(PYTHON) scripts/setup

clean:
	rm -rf .venv build runs
