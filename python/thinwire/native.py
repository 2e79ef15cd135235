"""thinwire._native, the engine in C++, loaded when torch is the one that it was built for."""

import importlib

import torch  # noqa: F401  its libraries come first

from thinwire import build

build.require_torch()
_native = importlib.import_module("thinwire._native")
