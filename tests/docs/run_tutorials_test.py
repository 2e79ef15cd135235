import os
import tempfile
import unittest
from pathlib import Path

import run_tutorials


class RunTutorialsTest(unittest.TestCase):
    def run_page(self, text):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(text)
            return run_tutorials.run_page(page, dict(os.environ))

    def test_files_and_commands_in_order(self):
        page = (
            "<!-- file: a.json -->\n```json\n{}\n```\nprose\n"
            "<!-- run -->\n```sh\ngrep -q '{}' a.json\ntouch b\n```\n"
            "<!-- run -->\n```sh\ntest -e b\n```\n"
        )
        self.assertEqual(len(run_tutorials.steps(page)), 3)
        self.assertIsNone(self.run_page(page))

    def test_a_command_that_fails_is_shown(self):
        error = self.run_page("<!-- run -->\n```sh\nfalse\ntrue\n```\n")
        self.assertIn("exit status 1", error)

    def test_unmarked_blocks_are_not_run(self):
        self.assertIsNone(self.run_page("```sh\nfalse\n```\n"))

    def test_a_page_may_need_packages(self):
        page = "<!-- needs: json no_such_package -->\n"
        self.assertEqual(run_tutorials.missing(page, dict(os.environ)), "no_such_package")
        self.assertEqual(run_tutorials.missing("prose", dict(os.environ)), "")

    def test_a_mark_without_a_block_is_an_error(self):
        with self.assertRaises(ValueError):
            run_tutorials.steps("<!-- run -->\n\n```sh\ntrue\n```\n")


if __name__ == "__main__":
    unittest.main()
