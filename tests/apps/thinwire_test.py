"""The command `thinwire`, run as a user runs it: exit codes, messages, output.

    thinwire_test.py BINARY

Files are written here from the formats' descriptions, not with the project's own writers.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = ""


def run(*arguments, binary=None, **environment):
    return subprocess.run(
        [binary or BINARY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
    )


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def write_checkpoint(directory, step):
    """One parameter "w" of shape [2, 2], saved by one rank."""
    directory.mkdir(parents=True)
    header, data, sums = {}, b"", []
    for kind in ("master", "m", "v"):
        part = struct.pack("<4f", *range(len(data), len(data) + 4))
        begin = len(data)
        header[f"w/{kind}@0"] = {
            "dtype": "F32",
            "shape": [4],
            "data_offsets": [begin, begin + len(part)],
        }
        data += part
        sums.append(crc32c(part))
    content = safetensors(header, data)
    (directory / "rank-00000.safetensors").write_bytes(content)
    manifest = {
        "format": "thinwire-checkpoint",
        "version": 1,
        "step": step,
        "hosts": 1,
        "ranks_per_host": 1,
        "world": 1,
        "files": [
            {
                "name": "rank-00000.safetensors",
                "bytes": len(content),
                "crc32c": crc32c(content),
            }
        ],
        "parameters": [{"name": "w", "shape": [2, 2]}],
        "pieces": [{"parameter": 0, "offset": 0, "elements": 4, "file": 0, "crc32c": sums}],
        "extra": {"sample": 42},
    }
    (directory / "manifest.json").write_text(json.dumps(manifest))


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_refused(self, result, *parts):
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("thinwire: "), result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("train", "generate", "inspect", "info", "First steps"):
            self.assertIn(word, result.stdout)
        self.assertEqual(run("inspect", "--help").returncode, 0)
        self.assertIn("checkpoint", run("inspect", "--help").stdout)
        self.assertEqual(run().returncode, 2)
        self.assertIn("First steps", run().stdout)

    def test_wrong_arguments(self):
        self.assert_refused(run("insepct"), "insepct", "--help")
        self.assert_refused(run("inspect"), "PATH is required")
        self.assert_refused(run("inspect", "a", "b"), "b")
        self.assert_refused(run("--nope"), "--nope")

    def test_info(self):
        result = run("info")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        values = dict(line.split(None, 1) for line in result.stdout.splitlines())
        self.assertRegex(values["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("scalar", result.stdout)
        self.assertRegex(result.stdout, r"\nio_uring +(not )?available")
        self.assertRegex(result.stdout, rf"\ncores +{len(os.sched_getaffinity(0))} of \d+ usable")
        self.assertIn("\nthinwire-train ", result.stdout)

    def test_info_says_which_instruction_set_is_used(self):
        self.assertIn("scalar, the best here", run("info", THINWIRE_ISA="scalar").stdout)
        self.assertIn("unset it or use scalar", run("info", THINWIRE_ISA="sse9").stdout)

    def test_inspect_safetensors(self):
        path = self.folder / "x.safetensors"
        header = {
            "__metadata__": {"made by": "hand\x1b[31m"},
            "b\nc": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]},
            "a": {"dtype": "U8", "shape": [2, 1], "data_offsets": [6, 8]},
        }
        path.write_bytes(safetensors(header, bytes(8)))
        result = run("inspect", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("2 tensors, 5 elements, 8 bytes", result.stdout)
        self.assertIn("made by = hand\\u001b[31m\n", result.stdout)
        self.assertRegex(result.stdout, r"\n  b\\nc +BF16 +\[3\] +6 bytes\n")
        self.assertRegex(result.stdout, r"\n  a +U8 +\[2,1\] +2 bytes\n")

    def test_inspect_malformed_files(self):
        path = self.folder / "x.safetensors"
        header = {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        for content, message in (
            (b"", "0 bytes are too few"),
            (b"PK\x03\x04 a zip file, not safetensors", "not a safetensors file"),
            (safetensors(header, bytes(3)), "cut off"),
            (safetensors({"a\n\x1b": 1}, b""), '"a\\n\\u001b": an object expected'),
        ):
            path.write_bytes(content)
            self.assert_refused(run("inspect", path), str(path), message)
        self.assert_refused(run("inspect", self.folder / "none"), "No such file")
        self.assert_refused(run("inspect", self.folder / "a\nb"), "a b")

    def test_inspect_gguf(self):
        def text(value):
            return struct.pack("<Q", len(value)) + value

        tokens = b"".join(text(b"t%d" % i) for i in range(8))
        content = (
            struct.pack("<4sIQQ", b"GGUF", 3, 1, 3)
            + text(b"general.name")
            + struct.pack("<I", 8)
            + text(b"a\n" + 200 * b"x")
            + text(b"eps")
            + struct.pack("<If", 6, 1e-5)
            + text(b"tokens")
            + struct.pack("<IIQ", 9, 8, 8)
            + tokens
            + text(b"w")
            + struct.pack("<IQQIQ", 2, 64, 3, 8, 0)
        )
        content += bytes(-len(content) % 32 + 3 * 2 * 34)
        # Known by its name or by what it begins with.
        for name in ("x.gguf", "x"):
            path = self.folder / name
            path.write_bytes(content)
            result = run("inspect", path)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("GGUF version 3, 3 keys, 1 tensors, 192 elements", result.stdout)
            self.assertIn('"a\\n' + 118 * "x" + '" and 82 bytes more\n', result.stdout)
            self.assertRegex(result.stdout, r"\n  eps +f32 +1e-05\n")
            self.assertIn(
                'array of 8 string  ["t0", "t1", "t2", "t3", "t4", "t5", ...]', result.stdout
            )
            self.assertRegex(result.stdout, r"\n  w +Q8_0 +\[3,64\] +204 bytes\n")
            self.assertRegex(result.stdout, r"\n  Q8_0 +1 tensor .* 8\.5 bits per element\n")
        path = self.folder / "y.gguf"
        path.write_bytes(content[:-1])
        self.assert_refused(run("inspect", path), str(path), 'tensor "w"', "cut off")
        path.write_bytes(b"no GGUF")
        self.assert_refused(run("inspect", path), "not a GGUF file")
        (self.folder / "z.gguf").mkdir()
        self.assert_refused(run("inspect", self.folder / "z.gguf"), "no complete checkpoint")

    def test_convert_refuses(self):
        output = self.folder / "x.gguf"
        self.assert_refused(run("convert", self.folder), "output", "required")
        self.assert_refused(run("convert", self.folder, "-o", output), "no config.json in it")
        self.assert_refused(
            run("convert", self.folder, "-o", output, "--like", self.folder), "--like"
        )
        (self.folder / "config.json").write_text("[]")
        self.assert_refused(run("convert", self.folder, "-o", output), "config.json", "JSON object")
        self.assertFalse(output.exists())

    def test_inspect_checkpoint(self):
        write_checkpoint(self.folder / "out/step-7", 7)
        for path in ("out/step-7", "out/step-7/", "out"):
            result = run("inspect", "--verify", self.folder / path)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("step 7, saved by 1 hosts x 1 ranks", result.stdout)
            self.assertRegex(result.stdout, r"\n  w +\[2,2\] +1 piece\n")
            self.assertIn('"sample": 42', result.stdout)
            self.assertIn("all as their checksums say", result.stdout)

    def test_inspect_shows_the_newest_and_says_what_it_ignores(self):
        write_checkpoint(self.folder / "step-7", 7)
        write_checkpoint(self.folder / "step-10", 10)
        write_checkpoint(self.folder / "step-20", 20)
        (self.folder / "step-20/manifest.json").unlink()
        result = run("inspect", self.folder)
        self.assertEqual(result.returncode, 0)
        self.assertIn("2 complete checkpoints", result.stdout)
        self.assertIn("step-20: no manifest.json", result.stdout)
        self.assertIn("checkpoint of step 10", result.stdout)

    def test_inspect_damaged_checkpoint(self):
        self.assert_refused(run("inspect", self.folder), "no complete checkpoint")
        write_checkpoint(self.folder / "step-7", 7)
        rank_file = self.folder / "step-7/rank-00000.safetensors"
        rank_file.write_bytes(rank_file.read_bytes()[:-1] + b"\x01")
        self.assertEqual(run("inspect", self.folder / "step-7").returncode, 0)
        self.assert_refused(
            run("inspect", "--verify", self.folder / "step-7"), "checksum", "damaged"
        )
        rank_file.unlink()
        self.assert_refused(run("inspect", self.folder), "rank-00000.safetensors: is missing")
        (self.folder / "step-7/manifest.json").write_text("{}")
        self.assert_refused(run("inspect", self.folder / "step-7"), "manifest.json", '"step"')

    def beside(self, train):
        """A copy of the binary with `train` as thinwire-train beside it; None: without one."""
        binary = self.folder / "thinwire"
        shutil.copy(BINARY, binary)
        if train is not None:
            (self.folder / "thinwire-train").write_text(train)
            (self.folder / "thinwire-train").chmod(0o755)
        return binary

    def test_train_and_generate_are_handed_over_as_they_are(self):
        binary = self.beside('#!/bin/sh\nfor word; do echo "<$word>"; done\nexit 7\n')
        for command in ("train", "generate"):
            result = run(command, "--help", "a b", "--x=1", binary=binary)
            self.assertEqual(result.returncode, 7)
            self.assertEqual(result.stdout, f"<{command}>\n<--help>\n<a b>\n<--x=1>\n")

    def test_train_that_was_not_built(self):
        binary = self.beside(None)
        result = run("train", "--help", binary=binary)
        self.assert_refused(result, "thinwire-train", "not built", "make build")
        self.assertIn("not built", run("info", binary=binary).stdout)
        binary = self.beside("no program")
        self.assert_refused(run("generate", binary=binary), "cannot start")


class PlanTest(unittest.TestCase):
    CLUSTER = ("--hosts", 64, "--ranks", 8, "--gbit", 25, "--params", "70e9")

    def plan(self, *arguments):
        done = run("plan", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_bytes_are_the_formulas_of_the_recipes(self):
        answer = self.plan(*self.CLUSTER)
        formulas = {"zero3": 6, "hpz": 4, "zero++": 1 + 1 / 64 + 0.5 + 1 / 64}
        for recipe in answer["recipes"]:
            if recipe["recipe"] not in formulas:
                continue
            formula = formulas[recipe["recipe"]] * 63 / 64
            self.assertAlmostEqual(recipe["formula_bytes_per_param"], formula, places=3)
            # Units that are still in a buffer, or only looked up in, are not sent again.
            self.assertLess(recipe["bytes_per_param"], 1.01 * formula)
            self.assertGreater(recipe["bytes_per_param"], 0.9 * formula)
            self.assertAlmostEqual(
                recipe["slow_bytes_per_host"] / recipe["bytes_per_param"] / answer["parameters"],
                1,
                places=6,
            )
            on_link = recipe["slow_bytes_per_host"] * 8 / 25e9
            self.assertGreaterEqual(recipe["step_s"], on_link)
            self.assertLess(recipe["step_s"], on_link + answer["compute_s"] + 1)
        operations = 6 * 4096 * answer["parameters"]
        self.assertAlmostEqual(answer["compute_s"] * 4e14 / operations, 1, delta=0.02)
        self.assertAlmostEqual(
            answer["kappa"], 6 * answer["parameters"] * 8 / 25e9 / answer["compute_s"], places=3
        )

    def test_a_fast_link_needs_no_codes(self):
        arguments = ("--hosts", 2, "--ranks", 8, "--gbit", 1e5, "--params", "1e9")
        self.assertEqual(self.plan(*arguments)["chosen"], "zero3")

    def test_one_recipe_as_text(self):
        done = run("plan", *self.CLUSTER, "--recipe", "hpz")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("hpz", done.stdout)
        self.assertIn("kappa", done.stdout)
        self.assertNotIn("zero3 ", done.stdout)

    def test_thousands_of_ranks_are_planned_at_once(self):
        answer = self.plan("--hosts", 1024, "--ranks", 8, "--gbit", 100, "--params", "70e9")
        self.assertEqual(answer["hosts"], 1024)

    def test_many_micro_batches_are_planned_soon(self):
        # Longer than `run` waits, where each of them is gone through.
        self.assertEqual(self.plan(*self.CLUSTER, "--micro-batches", 1024)["hosts"], 64)

    def test_auto_is_the_choice_among_all(self):
        self.assertEqual(self.plan(*self.CLUSTER, "--recipe", "auto"), self.plan(*self.CLUSTER))

    def test_bad_input_names_the_option(self):
        for option, value in (
            ("--hosts", 0),
            ("--hosts", 5000),
            ("--gbit", -1),
            ("--gbit", "nan"),
            ("--gbit", "1e-300"),
            ("--params", 3),
            ("--tokens", 0),
            ("--tokens", 1.5),
            ("--flops", 0),
            ("--flops", "1e-300"),
            ("--codec-rate", "1e-300"),
            ("--compute-s", "1e300"),
            ("--measured", "/"),
            ("--layers", -3),
            ("--loss-budget", -1),
            ("--recipe", "zero4"),
        ):
            cluster = dict(zip(self.CLUSTER[::2], self.CLUSTER[1::2], strict=True))
            cluster[option] = value
            done = run("plan", *(part for pair in cluster.items() for part in pair))
            self.assertEqual(done.returncode, 2, (option, value, done.stdout))
            named = "recipe" if option == "--recipe" else option
            self.assertIn(named, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(run("plan", "--hosts", 2).returncode, 2)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
