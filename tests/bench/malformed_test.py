#!/usr/bin/env python3
"""Malformed GGUF files against the command; malformed.py against one that takes them wrongly.

malformed_test.py BINARY
"""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import malformed  # noqa: E402
import malformed_list  # noqa: E402

BINARY = ""

# Refuses some files as it should, gives up on one, reads one, takes long for one.
FAKE = """#!/bin/sh
case $1 in --help) echo '  inspect   Show'; exit 0 ;; esac
case $(head -c 8 "$2" | tail -c 4 | od -An -tu1 | tr -d ' ') in
  3000) case $(stat -c %s "$2") in 512) exit 0 ;; esac; kill -ABRT $$ ;;
  99000) exit 0 ;;
  1000) echo "thinwire: version 1" >&2
    sh -c 'ulimit -t 1; while :; do :; done' 2> /dev/null
    exit 2 ;;
esac
echo "thinwire: $2: the version is wrong" >&2; exit 2
"""


def quick(build, *arguments):
    out = io.StringIO()
    command = ["malformed.py", "--quick", "--build", str(build), *arguments]
    with mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(out):
        code = malformed.main()
    return code, json.loads(out.getvalue().splitlines()[-1])


class MalformedTest(unittest.TestCase):
    def test_every_file_is_refused_cleanly(self):
        code, made = quick(Path(BINARY).parents[1])
        self.assertEqual([row for row in made["rows"] if not row["ok"]], [])
        self.assertEqual(code, 0)
        self.assertGreater(len(made["rows"]), 31)

    def test_edits_of_a_model(self):
        entries = [
            malformed_list.key(b"general.architecture", 8, malformed_list.text(b"llama")),
            malformed_list.key(b"llama.block_count", 4, malformed_list.u32(1)),
            malformed_list.key(b"llama.attention.head_count_kv", 4, malformed_list.u32(1)),
            malformed_list.key(b"llama.embedding_length", 4, malformed_list.u32(32)),
            malformed_list.key(b"tokenizer.ggml.eos_token_id", 4, malformed_list.u32(1)),
            malformed_list.key(b"tokenizer.ggml.model", 8, malformed_list.text(b"gpt2")),
            malformed_list.key(b"tokenizer.ggml.pre", 8, malformed_list.text(b"smollm")),
            malformed_list.array(b"tokenizer.ggml.token_type", 5, 2, bytes(8)),
            malformed_list.array(
                b"tokenizer.ggml.tokens", 8, 30000, malformed_list.text(b"token") * 30000
            ),
        ]
        content = malformed_list.padded(
            malformed_list.header(2, len(entries))
            + b"".join(entries)
            + malformed_list.tensor(b"blk.0.attn_q.weight", (32, 32), 0, 0)
            + malformed_list.tensor(b"output.weight", (32, 4096), 0, 4096),
            4096 + (1 << 19),
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            path.write_bytes(content)
            _, made = quick(Path(BINARY).parents[1], "--model", str(path))
        # This is no whole model: to run it is refused, but for what it lacks.
        for row in made["rows"]:
            with self.subTest(row["case"], command=row["command"]):
                lacks = row["command"] == "run" and row["wrong"].startswith("the message lacks")
                self.assertTrue(row["ok"] or lacks, row)
        self.assertGreater(sum(row["case"].startswith("real file") for row in made["rows"]), 6)

    def test_what_is_wrong_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder) / "apps/thinwire"
            binary.parent.mkdir()
            binary.write_text(FAKE)
            binary.chmod(0o755)
            with mock.patch.object(malformed, "_MOST_SECONDS", 0.5):
                code, made = quick(folder)
        wrong = {row["case"]: row["wrong"] for row in made["rows"]}
        self.assertEqual(code, 1)
        self.assertEqual(wrong["magic only"], "")
        self.assertEqual(wrong["version 99"], "exit code 0")
        self.assertEqual(wrong["5 extents"], "exit code -6")
        self.assertRegex(wrong["version 1"], r"^\d\.\d s$")
        self.assertIn("lacks", wrong["empty"])


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
