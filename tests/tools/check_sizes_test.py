import unittest

from lint_case import LintCase

FILE = "thinwire/base/a.cc"


def function(lines, head="int F(int x) {"):
    return "\n".join([head] + ["  x += 1;"] * (lines - 2) + ["}"]) + "\n"


class CheckSizesTest(LintCase):
    tool = "check_sizes"

    def test_lines_of_a_file(self):
        self.assert_clean({FILE: "//\n" * 600, "thinwire/base/a.h": "//\n" * 300})
        self.assert_finds("601 lines", {FILE: "//\n" * 601})
        self.assert_finds("301 lines", {"thinwire/base/a.h": "//\n" * 301})
        self.assert_finds("601 lines", {"bench/a.py": "#\n" * 601})

    def test_lines_of_a_function(self):
        for head in (
            "int F(int x) {",
            "Foo::Foo(int x) : x_(x), y_{1} {",
            "TEST(A, B) {",
            "template <typename T>\nstd::vector<T> F(T x) const {",
            "auto F(int x) -> std::pair<int, int> {",
            "bool operator==(const A& x) const {",
        ):
            extra = head.count("\n")
            for before, after in (
                ("", ""),
                ("namespace n {\n", "}  // namespace n\n"),
                ("class A final : public B {\n public:\n", "};\n"),
            ):
                self.assert_clean({FILE: before + function(80 - extra, head) + after})
                self.assert_finds("81 lines", {FILE: before + function(81 - extra, head) + after})

    def test_what_is_not_a_function(self):
        body = "  int x;\n" * 100
        self.assert_clean({FILE: f"struct A {{\n{body}}};\n"})
        self.assert_clean({FILE: f"namespace a::b {{\n{body.replace('int x', 'int F()')}}}\n"})
        rows = "  {1, 2},\n" * 100
        self.assert_clean({FILE: f"constexpr std::array<A, 3> kTable = {{\n{rows}}};\n"})
        self.assert_clean({FILE: f"const int kTable[] = {{\n{rows}}};\n"})

    def test_lines_of_a_python_function(self):
        lines = "def f():\n" + "    x = 1\n" * 80
        self.assert_finds("f: 81 lines", {"tools/a.py": lines})

    def test_braces_in_text_do_not_count(self):
        text = 'void F() {\n  Use("{{{", \'{\', R"({{)");  // {{{\n  /* { */\n}\n'
        self.assert_clean({FILE: text + function(80)})

    def test_arguments_of_a_constructor(self):
        six = "int a, std::map<int, int> b, F<int(int, int)> c, int d = f(1, 2), int e, int g"
        self.assert_clean({FILE: f"class A {{\n public:\n  explicit A({six});\n}};\n"})
        for text in (
            f"class A {{\n public:\n  explicit A({six}, int h);\n}};\n",
            f"class A {{\n public:\n  A({six}, int h) {{}}\n}};\n",
            f"A::A({six}, int h) {{}}\n",
        ):
            self.assert_finds("a constructor of 7 arguments", {FILE: text})

    def test_arguments_of_a_python_constructor(self):
        self.assert_finds(
            "__init__ of 7",
            {"bench/a.py": "class A:\n    def __init__(self, a, b, c, *, d, e, f, g): pass\n"},
        )

    def test_mutable_globals(self):
        for text in (
            "int counter = 0;",
            "static int counter;",
            "std::atomic<int64_t> counter{0};",
            "thread_local bool on = false;",
            "namespace {\nstd::vector<int> all;\n}",
            "void F() {\n  static std::mutex m;\n}",
            "struct A {\n  static int count;\n};",
            "int table[4] = {1, 2, 3, 4};",
            "static std::map<int, int> seen = Make();",
        ):
            self.assert_finds("a mutable global", {FILE: text + "\n"})
        self.assert_finds(
            "a mutable global: cache", {"tools/a.py": "def f():\n    global cache\n    cache = 1\n"}
        )

    def test_what_is_not_a_mutable_global(self):
        for text in (
            "constexpr int kCount = 3;",
            "static const Codec& codec = Make();",
            "int F(int x);",
            "std::vector<int> F(std::span<const int> x, int y = 3);",
            "using A = int;",
            "class A;",
            "enum class A : int { kOne, kTwo };",
            "template <typename T> class B;",
            "struct A {\n  int x = 0;\n  std::vector<int> y;\n};",
            "void F() {\n  int x = 0;\n  static const int y = 1;\n}",
            "inline constexpr std::array<int, 2> kTable = {1, 2};",
            'extern "C" {\nint F(void);\n}',
            "namespace fs = std::filesystem;",
            "std::atomic<int> calls{0};  // NOLINT(mutable-global): malloc takes no argument",
            "class A {\n  static int Count();\n  static std::string Name(int x) { return {}; }\n};",
        ):
            self.assert_clean({FILE: text + "\n"})

    def test_forbidden_words(self):
        self.assert_finds("using namespace std", {FILE: "using namespace std;\n"})
        self.assert_finds("THINWIRE_CHECK", {FILE: "void F() {\n  assert(true);\n}\n"})
        self.assert_clean({FILE: "static_assert(true);\n// assert(true) is not used\n"})


if __name__ == "__main__":
    unittest.main()
