import unittest

from lint_case import LintCase


class CheckLinksTest(LintCase):
    tool = "check_links"

    def test_links_that_lead_somewhere(self):
        self.assert_clean(
            {
                "README.md": "[a](docs/a.md) [b](docs) [c](https://example.org/x) [d](#here)\n",
                "docs/a.md": "[up](../README.md#part)\n",
            }
        )

    def test_a_link_that_leads_nowhere(self):
        self.assert_finds("docs/a.md:3: no b.md", {"docs/a.md": "a\n\n[b](b.md)\n"})

    def test_code_is_not_read(self):
        self.assert_clean({"docs/a.md": "`[x](y)`\n```sh\na [x](y)\n```\n"})


if __name__ == "__main__":
    unittest.main()
