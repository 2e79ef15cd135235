"""A small tree of files to run a check of tools/ on."""

import importlib
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))


class LintCase(unittest.TestCase):
    tool = ""

    def findings(self, files):
        """What the check says about a tree of {path: text}."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return importlib.import_module(self.tool).check(Path(folder))

    def assert_clean(self, files):
        self.assertEqual(self.findings(files), [])

    def assert_finds(self, expected, files):
        """Exactly one finding, which contains `expected`."""
        findings = self.findings(files)
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(expected, findings[0])
