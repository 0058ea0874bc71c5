VENV ?= .venv
PYTHON := $(VENV)/bin/python
BUILD_REQUIRES := 'setuptools>=77' 'cython>=3.1,<4' 'numpy>=2.0'
INSTALL := $(VENV)/bin/pip install --no-build-isolation
BENCH ?= counter_loop --quick
TEXTS ?= 100000

.PHONY: install kernels test thorough debug asan lint format types rules docs names operations layers bench gpu golden demo clean

install: $(PYTHON)  ## editable install with everything the tests need; compiles what changed
	$(INSTALL) --editable '.[test,bench]'

kernels: $(PYTHON)  ## compile what changed, and nothing else
	$(PYTHON) setup.py --quiet build_ext --inplace

$(PYTHON):  # the build requirements of pyproject.toml, so that builds need no environment of their own
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install $(BUILD_REQUIRES)

test:  ## the default tier of the suite, on all cores
	$(PYTHON) -m pytest -n auto

thorough:  ## all cases of all families, and all random programs
	$(PYTHON) -m pytest -n auto --thorough

debug: $(PYTHON)  ## rebuild with bounds checks and counters on, then test; `make install` goes back
	TAGLOOM_DEBUG=1 $(INSTALL) --editable '.[test]'
	$(PYTHON) -m pytest -n auto --thorough

# What scipy brings throws exceptions, so libstdc++ comes early too. The pool poisons what is behind an array, and what is
# freed (kernels/memory/store.pyx); the kernels are tested with the C library's blocks as well, which are poisoned in front too.
WITH_ASAN := ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)"

asan: $(PYTHON)  ## rebuild with AddressSanitizer, test the kernels, read TEXTS random texts; `make kernels` goes back
	TAGLOOM_ASAN=1 $(PYTHON) setup.py --quiet build_ext --inplace
	$(WITH_ASAN) $(PYTHON) -m pytest -n auto tests/kernels
	$(WITH_ASAN) TAGLOOM_OFF=pool $(PYTHON) -m pytest -n auto tests/kernels
	$(WITH_ASAN) TAGLOOM_TEXTS=$(TEXTS) $(PYTHON) -m pytest -n auto tests/property/test_random_texts.py

lint:
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format:
	$(VENV)/bin/ruff format .

types:  ## mypy, and pyright where it is installed, on the tree
	$(VENV)/bin/mypy
	if command -v pyright; then pyright --pythonpath $(PYTHON); fi

rules:  ## which test covers which rule of the semantics
	$(PYTHON) -m pytest --rules

docs: $(PYTHON)  ## the documents as a site; a warning is an error
	$(INSTALL) --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict --quiet
	@echo build/site/index.html

bench:  ## make bench BENCH='lstm_train --quick --peer torch'
	$(PYTHON) -m bench $(BENCH)

gpu:  ## what needs a GPU, for eight minutes; say it again while it ends with status 2
	$(PYTHON) -m bench.gpu

operations: $(PYTHON)  ## write the tables of operations anew: docs/operations.md, and which module declares a type
	$(PYTHON) -m tests.architecture.type_modules
	$(PYTHON) docs/generate_operations.py

names: $(PYTHON)  ## write the list of public names anew from the families' lists: engine/public.py
	$(PYTHON) -m tests.architecture.public_names

layers: $(PYTHON)  ## draw the layers and the paths through the code anew: docs/layers.svg, docs/paths
	$(PYTHON) docs/draw_layers.py
	$(PYTHON) docs/draw_paths.py

golden:  ## write the golden texts anew; read the diff before committing it
	$(PYTHON) -m pytest -k golden --update-golden

demo:
	$(VENV)/bin/tagloom demo

clean:
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find kernels streams swap -name '*.so' -delete 2>/dev/null || true
