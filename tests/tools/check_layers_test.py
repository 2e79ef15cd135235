import unittest

from lint_case import LintCase


class CheckLayersTest(LintCase):
    tool = "check_layers"

    def test_a_lower_layer_and_the_own_folder_may_be_included(self):
        self.assert_clean(
            {
                "thinwire/comm/a.h": '#include "thinwire/base/error.h"\n'
                '#include "thinwire/comm/b.h"\n',
                "thinwire/comm/b.h": "",
                "thinwire/base/error.h": "",
                "thinwire/torch/t.cc": "#include <ATen/core/Tensor.h>\n",
                "tests/parity/p.cc": "#include <ATen/core/Tensor.h>\n",
                "tests/x_test.cc": '#include "thinwire/zero/engine.h"\n',
            }
        )

    def test_a_higher_layer_may_not_be_included(self):
        self.assert_finds(
            "thinwire/codec/a.h:2: codec/ may not include thinwire/zero/engine.h",
            {"thinwire/codec/a.h": '\n#include "thinwire/zero/engine.h"\n'},
        )

    def test_a_layer_at_the_side_may_not_be_included(self):
        self.assert_finds(
            "io/ may not include thinwire/kernels/sum.h",
            {"thinwire/io/a.cc": '#include "thinwire/kernels/sum.h"\n'},
        )

    def test_tests_of_a_layer_obey_too(self):
        self.assert_finds(
            "may not include", {"thinwire/base/a_test.cc": '#include "thinwire/io/file.h"\n'}
        )

    def test_an_unknown_folder_is_named(self):
        self.assert_finds("thinwire/misc is not among LAYERS", {"thinwire/misc/a.h": ""})

    def test_torch_stays_in_its_layers(self):
        for header in (
            "ATen/core/Tensor.h",
            "c10/util/Exception.h",
            "torch/csrc/Export.h",
            "gloo/context.h",
        ):
            for folder in ("thinwire/zero", "apps", "tests"):
                self.assert_finds(f"torch ({header})", {f"{folder}/a.cc": f"#include <{header}>\n"})

    def test_the_slow_headers_are_banned_everywhere(self):
        for header in ("torch/torch.h", "torch/extension.h"):
            self.assert_finds("is banned", {"thinwire/torch/a.cc": f"#  include <{header}>\n"})

    def test_an_inline_header_is_private_to_its_folder(self):
        files = {
            "thinwire/kernels/sum-inl.h": "",
            "thinwire/kernels/sum_isa.cc": '#include "thinwire/kernels/sum-inl.h"\n',
        }
        self.assert_clean(files)
        files["thinwire/codec/raw.cc"] = '#include "thinwire/kernels/sum-inl.h"\n'
        self.assert_finds("is private to its folder", files)

    def test_a_cycle_of_files_is_shown(self):
        self.assert_finds(
            "thinwire/io/a.h -> thinwire/io/b.h -> thinwire/io/a.h",
            {
                "thinwire/io/a.h": '#include "thinwire/io/b.h"\n',
                "thinwire/io/b.h": '#include "thinwire/io/a.h"\n',
            },
        )

    def test_the_own_header_comes_first(self):
        self.assert_finds(
            "the first include must be thinwire/io/a.h",
            {
                "thinwire/io/a.h": "",
                "thinwire/io/a.cc": '#include <vector>\n\n#include "thinwire/io/a.h"\n',
            },
        )

    def test_a_short_path_is_refused(self):
        self.assert_finds(
            "write the whole path: thinwire/io/b.h",
            {"thinwire/io/b.h": "", "thinwire/io/a.h": '#include "b.h"\n'},
        )

    def test_a_commented_include_does_not_count(self):
        self.assert_clean({"thinwire/base/a.h": '// #include "thinwire/zero/engine.h"\n'})


if __name__ == "__main__":
    unittest.main()
