#!/usr/bin/env bash
# Builds the CUDA kernels, compares them bit for bit with the CPU's, and times them. Needs a GPU, nvcc,
# CMake, Ninja, g++, GoogleTest and nlohmann-json; with --build-only no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset cuda
cmake --build --preset cuda
if [ "${1:-}" = --build-only ]; then exit 0; fi
build/cuda/kernels_quantize_cuda_test
build/cuda/kernels_quantize_cuda_bench
