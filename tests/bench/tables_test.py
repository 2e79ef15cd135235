#!/usr/bin/env python3
"""Tests of results and of the tables made from them, and that this tree's tables are fresh."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import result  # noqa: E402
import tables  # noqa: E402


def wire(recipe, formula, **more):
    made = result.make(
        "wire",
        "LLaMA-type, 30 M",
        "emulated",
        11.0,
        [result.at_most("payload / formula", 1.002, 1.01)],
        recipe=recipe,
        topology="2 x 2",
        mbit=200.0,
        formula_bytes_per_param=formula,
        payload_bytes_per_param=formula * 1.002,
        wire_bytes_per_param=None,
        messages_per_step=120,
        step_s=3.217,
        **more,
    )
    return made | {"machine": "a machine", "commit": "c0ffee"}


class ResultTest(unittest.TestCase):
    def test_bars_hold_or_not_or_were_not_measured(self):
        held = [
            bar["holds"]
            for bar in (
                result.at_most("a", 1.0, 1.0),
                result.at_most("a", 1.1, 1.0),
                result.at_most("a", None, 1.0),
                result.at_least("a", 1.0, 1.0),
                result.at_least("a", 0.9, 1.0),
                result.at_least("a", None, 1.0),
            )
        ]
        self.assertEqual(held, [True, False, None, True, False, None])

    def test_rounding_for_display_decides_nothing(self):
        bar = result.at_most("a", 1.000004, 1.0)
        self.assertEqual((bar["value"], bar["holds"]), (1.0, False))

    def test_kappa_is_time_on_the_link_over_time_of_computing(self):
        # 30 M parameters x 6 bytes over 25 MB/s take 7.2 s; computing takes 0.6 s.
        self.assertEqual(result.kappa(30_000_000, 200, 0.6), 12.0)
        self.assertIsNone(result.kappa(30_000_000, 0, 0.6))
        self.assertIsNone(result.kappa(30_000_000, 200, None))

    def test_ends_with_one_json_line_and_saves_the_same(self):
        made = wire("zero3", 3.0)
        printed = io.StringIO()
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.multiple(result, ROOT=Path(folder), RESULTS=Path(folder) / "results"),
            contextlib.redirect_stdout(printed),
        ):
            result.finish(made, save_as="wire-zero3")
            saved = json.loads((Path(folder) / "results" / "wire-zero3.json").read_text())
        line = json.loads(printed.getvalue().splitlines()[-1])
        self.assertEqual(line, made)
        self.assertEqual(saved, made)
        for key in ("bench", "commit", "machine", "model", "hosts", "kappa", "bars"):
            self.assertIn(key, line)

    def test_kind_of_hosts_is_one_of_three(self):
        with self.assertRaises(ValueError):
            result.make("wire", None, "fast", None, [])


class TablesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "bench" / "results").mkdir(parents=True)
        (self.root / "docs").mkdir()
        self.page = self.root / "docs" / "page.md"

    def save(self, name, made):
        (self.root / "bench" / "results" / f"{name}.json").write_text(json.dumps(made))

    def test_wire_table(self):
        self.save("wire-hpz", wire("hpz", 2.0))
        self.save("wire-zero3", wire("zero3", 3.0))
        self.page.write_text("a\n<!-- table: wire -->\nold\n<!-- end table -->\nb\n")
        self.assertEqual(tables.stale(self.root, write=False), [self.page])
        tables.stale(self.root, write=True)
        self.assertEqual(tables.stale(self.root, write=False), [])
        self.assertEqual(
            self.page.read_text(),
            "a\n<!-- table: wire -->\n"
            "| recipe | formula | payload | on the wire | messages | s/step |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: |\n"
            "| zero3, 2 x 2, 200 Mbit/s | 3.000 | 3.006 | - | 120 | 3.22 |\n"
            "| hpz, 2 x 2, 200 Mbit/s | 2.000 | 2.004 | - | 120 | 3.22 |\n"
            "\nLLaMA-type, 30 M; emulated hosts, kappa 11.0; a machine; commit `c0ffee`.\n"
            "<!-- end table -->\nb\n",
        )

    def test_peers_table_has_a_column_per_rate(self):
        runs = [
            {"name": "fsdp2", "mbit": 200.0, "step_s": 8.4, "wire_bytes_per_param": 5.8},
            {"name": "fsdp2", "mbit": 0.0, "step_s": 1.0, "wire_bytes_per_param": 5.79},
            {"name": "ddp", "mbit": 0.0, "step_s": 0.7, "wire_bytes_per_param": 3.0},
        ]
        for name, own in (("peers-200", runs[:1]), ("peers-0", runs[1:])):
            self.save(name, result.make("peers", None, "emulated", None, [], runs=own))
        table = tables.peers(tables.load(self.root / "bench" / "results"))
        self.assertIn("| s/step at 200 Mbit/s | s/step, no limit |", table)
        self.assertIn("| fsdp2 | 5.80 | 8.40 | 1.00 |", table)
        self.assertIn("| ddp | 3.00 | - | 0.70 |", table)

    def test_peers_by_tokens_at_one_rate(self):
        for tokens, step_s in ((512, 9.0), (128, 8.4)):
            name = "peers-200" if tokens == 128 else f"peers-200-{tokens}"
            run = {"name": "fsdp2", "mbit": 200.0, "step_s": step_s, "wire_bytes_per_param": 5.8}
            made = result.make("peers", None, "emulated", None, [], tokens=tokens, runs=[run])
            self.save(name, made)
        results = tables.load(self.root / "bench" / "results")
        self.assertIn("| fsdp2 | 8.40 | 9.00 |", tables.peers_tokens(results))
        self.assertIn("| fsdp2 | 5.80 | 8.40 |\n", tables.peers(results))

    def test_codec_table_has_a_row_per_kernel_and_marks_what_is_below_the_bar(self):
        rows = [
            {"kernel": kernel, "isa": isa, "ratio": ratio, "gigabytes_per_second": 20.04,
             "has_bar": isa != "scalar"}
            for kernel, isa, ratio in (
                ("a to b", "avx2", 0.9), ("a to b", "avx512", 0.79), ("a to b", "scalar", 0.1),
                ("c", "avx2", 1.2),
            )
        ]  # fmt: skip
        bars = [result.at_least("a to b: of a loop", 0.79, 0.8), result.at_least("c: x", 1.2, 0.8)]
        self.save("codec", result.make("codec", None, "real", None, bars, build="dev", rows=rows))
        table = tables.codec(tables.load(self.root / "bench" / "results"))
        self.assertIn("| kernel | avx2, GB/s | of a plain loop | avx512, GB/s |", table)
        self.assertIn("| a to b | 20.0 | 0.90 | 20.0 | **0.79** | 20.0 | 0.10 |", table)
        self.assertIn("| c | 20.0 | 1.20 | - | - | - | - |", table)

    def test_weights_table_compares_with_ggml(self):
        row = {
            "type": "Q4_0", "bits": 4.5, "encoded_per_us": 200.4, "ggml_encoded_per_us": 150.0,
            "errors": {"normal": {"thinwire": 0.09, "ggml": 0.1, "ratio": 0.9}},
            "decoded_per_us": 4000.0,
        }  # fmt: skip
        self.save(
            "weights", result.make("weights", "m.gguf", "real", None, [], build="dev", rows=[row])
        )
        table = tables.weights(tables.load(self.root / "bench" / "results"))
        self.assertIn("| type | bits per weight | normal | encoded/us | ggml | decoded/us |", table)
        self.assertIn("| Q4_0 | 4.50 | 0.0900 (0.90) | 200 | 150 | 4,000 |", table)

    def test_a_table_of_several_results_names_all_commits(self):
        one, two = wire("zero3", 3.0), wire("hpz", 2.0) | {"commit": "decaf"}
        self.assertTrue(tables.origin([one, two]).endswith("commit `c0ffee`, `decaf`.\n"))

    def test_bars_that_do_not_hold_stay_visible(self):
        made = wire("zero3", 3.0) | {"bars": [result.at_most("too much", 2.0, 1.0)]}
        self.save("wire-zero3", made)
        table = tables.bars(tables.load(self.root / "bench" / "results"))
        self.assertIn("| too much (`wire-zero3`) | 2 | 1 | **no** |", table)

    def test_nothing_measured_yet(self):
        for table in tables.TABLES.values():
            self.assertEqual(table({}), "Not measured yet.\n")

    def test_unknown_table_is_an_error(self):
        self.page.write_text("<!-- table: wires -->\n<!-- end table -->\n")
        with self.assertRaisesRegex(KeyError, "wires"):
            tables.stale(self.root, write=False)

    def test_tables_of_this_tree_are_fresh(self):
        self.assertEqual(tables.stale(ROOT, write=False), [], "run python3 bench/tables.py")


if __name__ == "__main__":
    unittest.main()
