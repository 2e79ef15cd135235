"""Hugging Face's packages, which the project does without: their tests are skipped, and say so."""

import importlib.util
import unittest

_WANTED = ("transformers", "accelerate", "peft")
MISSING = [name for name in _WANTED if importlib.util.find_spec(name) is None]


def needed(test_case):
    reason = f"{', '.join(MISSING)} not installed: pip install -r requirements-hf.txt"
    return unittest.skipIf(MISSING, reason)(test_case)
