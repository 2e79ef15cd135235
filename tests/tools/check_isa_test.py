import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import check_isa  # noqa: E402 (found through the path above)


class CheckIsaTest(unittest.TestCase):
    def findings(self, source):
        with tempfile.TemporaryDirectory() as folder:
            command = ["g++", "-x", "c++", "-c", "-O0", "-", "-o", str(Path(folder, "x_isa.cc.o"))]
            subprocess.run(command, input=source, text=True, check=True)
            return check_isa.check(Path(folder))

    def test_what_has_internal_linkage_or_its_own_name_passes(self):
        self.assertEqual(
            self.findings(
                "static int F() { return 1; } namespace avx2 { int G() { return F(); } }"
            ),
            [],
        )

    def test_an_inline_function_is_found(self):
        findings = self.findings("inline int F() { return 1; } int G() { return F(); }")
        self.assertEqual(findings, ["x_isa.cc.o: F() has external linkage"])

    def test_a_template_is_found(self):
        findings = self.findings(
            "template <class T> T F(T x) { return x; } int G() { return F(1); }"
        )
        self.assertEqual(findings, ["x_isa.cc.o: int F<int>(int) has external linkage"])

    def test_a_build_without_objects_is_not_a_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("build first", check_isa.check(Path(folder))[0])


if __name__ == "__main__":
    unittest.main()
