import unittest

from lint_case import LintCase


class CheckWordsTest(LintCase):
    tool = "check_words"

    def test_unfinished_business(self):
        word = "TO" + "DO"
        for path in ("thinwire/base/a.h", "docs/a.md", "tools/a.sh", "Makefile", ".ci/run"):
            self.assert_finds(word, {path: f"a line\n# {word}: later\n"})

    def test_paths_of_one_machine(self):
        for path in ("work/main", "home/ann/thinwire", "root/.cache"):
            self.assert_finds("a path of one machine", {"docs/a.md": f"cd /{path}\n"})
        self.assert_clean(
            {"docs/a.md": "see https://example.org/home/page, $HOME/x, a/work/b, /tmp/run\n"}
        )

    def test_commented_out_cpp(self):
        for line in (
            "x = y + 1;",
            "return x;",
            "if (a) {",
            "Foo(bar, 1);",
            "}",
            "#include <vector>",
            "const auto x = F();",
            "std::vector<int> all;",
        ):
            self.assert_finds(
                "commented-out code", {"thinwire/base/a.cc": f"int a();\n  // {line}\n"}
            )

    def test_prose_in_cpp_comments(self):
        for line in (
            "The first reason stays; the others go.",
            "p = p - lr * m",
            "see engine.h (stage 3);",
            "Returns when the message has been sent;",
            "if it fails, the run ends.",
            "x.h (contract) x.cc (scalar reference + dispatch)",
            "g = grad * scale; m and v follow",
        ):
            self.assert_clean({"thinwire/base/a.cc": f"// {line}\n"})

    def test_commented_out_python(self):
        for line in ("x = 1", "print(x)", "import os"):
            self.assert_finds("commented-out code", {"tools/a.py": f"# {line}\n"})
        self.assert_clean({"tools/a.py": "# a reason\n# word\n# two words\n"})


if __name__ == "__main__":
    unittest.main()
