#!/usr/bin/env python3
"""Tests of the commands wire, peers, plan and demo against a trainer with known numbers."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))

import demo  # noqa: E402
import overhead  # noqa: E402
import peers  # noqa: E402
import plan  # noqa: E402
import wire  # noqa: E402
from cluster import EmulatedCluster, LogicalCluster, why_not_permitted  # noqa: E402
from trainer import BENCH_MODEL, Model, train  # noqa: E402

REASON = why_not_permitted()
PARAMETERS = BENCH_MODEL.parameters()


class WithFakeTrainer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "text.txt").write_text("text")
        self.environment({"THINWIRE_TRAIN": str(HERE / "fake_trainer.py")})

    def environment(self, variables):
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def config(self, steps):
        return BENCH_MODEL.config(self.folder / "text.txt", self.folder / "out", "zero3", steps)

    def call(self, main, *arguments):
        """Exit code, output and errors of a command."""
        out, errors = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["command", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            code = main()
        return code, out.getvalue(), errors.getvalue()


class ModelTest(unittest.TestCase):
    def test_parameters_are_those_of_the_peers(self):
        # Counted by transformers' LlamaForCausalLM for this shape.
        self.assertEqual(PARAMETERS, 29_893_120)

    def test_grouped_heads_have_narrower_keys_and_values(self):
        whole, grouped = Model(64, 2, 4, 4, 128, 257, 32), Model(64, 2, 4, 2, 128, 257, 32)
        self.assertEqual(whole.parameters() - grouped.parameters(), 2 * 2 * 64 * 32)


class TrainTest(WithFakeTrainer):
    def setUp(self):
        super().setUp()
        self.environment({"FAKE_STEP_S": "0.03"})

    def test_window_on_logical_hosts(self):
        with LogicalCluster(2, 0) as cluster:
            run = train(cluster, self.config(25), 1, 5, 60)
        self.assertEqual(run.window.steps(), 20)
        # A mark is seen when the file is read, up to a poll after the step.
        self.assertGreater(run.window.step_s(), 0.027)
        self.assertIsNone(run.window.wire_bytes_per_step())
        self.assertEqual(run.payload, 3.003)
        self.assertEqual((len(run.metrics), len(run.evaluations)), (25, 1))

    @unittest.skipIf(REASON, f"emulated hosts are not permitted here: {REASON}")
    def test_wire_bytes_are_those_of_the_steps_in_the_window(self):
        with EmulatedCluster(2, 100) as cluster:
            run = train(cluster, self.config(25), 1, 5, 60)
        # 10 datagrams of 1042 bytes per host and step; each side also answers with "nobody listens
        # here" (ICMP), at most 590 bytes each, as often as the kernel's limit allows.
        sent = run.window.wire_bytes_per_step()
        self.assertGreaterEqual(sent, 10 * 1042 * 0.9)
        self.assertLess(sent, 10 * (1042 + 590) * 1.1)

    def test_a_failed_rank_ends_the_command_with_its_message(self):
        self.environment({"FAKE_FAIL": "1"})
        with LogicalCluster(2, 0) as cluster, self.assertRaises(SystemExit) as stop:
            train(cluster, self.config(5), 1, 1, 60)
        self.assertIn("rank 1 was told to fail", str(stop.exception))


class WireTest(WithFakeTrainer):
    def test_quick_form_ends_with_the_result(self):
        code, out, _ = self.call(wire.main, "--recipe", "hpz", "--quick", "--ranks", "1")
        made = json.loads(out.splitlines()[-1])
        self.assertEqual((code, made["recipe"], made["topology"]), (0, "hpz", "2 x 1"))
        self.assertEqual(made["formula_bytes_per_param"], 3.0)
        self.assertEqual(made["payload_bytes_per_param"], 3.003)
        self.assertEqual(made["messages_per_step"], 120)
        payload, predicted, on_wire = made["bars"]
        self.assertEqual((predicted["value"], predicted["bar"]), (0.001, 0.01))
        self.assertEqual((payload["value"], payload["bar"], payload["holds"]), (1.001, 1.01, True))
        self.assertEqual(on_wire["bar"], 1.0605)


class DemoTest(WithFakeTrainer):
    def demo(self):
        return self.call(demo.main, "--quick", "--out", str(self.folder / "demo"))

    def test_table_sample_and_success(self):
        code, out, _ = self.demo()
        self.assertEqual(code, 0, out)
        for expected in (
            "run 2 of 2: zero++",
            "seconds per step",
            "peak memory of a rank",
            "return 42",
        ):
            self.assertIn(expected, out)
        self.assertEqual(json.loads(out.splitlines()[-1])["bench"], "demo")

    def test_a_loss_that_is_no_number_or_did_not_fall_fails(self):
        for loss, words in (("null", "not a finite number"), ("5.5", "did not fall")):
            with self.subTest(loss):
                self.environment({"FAKE_LOSS": loss})
                code, _, errors = self.demo()
                self.assertEqual(code, 1)
                self.assertIn(words, errors)


class OverheadTest(unittest.TestCase):
    def test_median_over_median(self):
        row = overhead.row(2, {"ddp": [0.010, 0.011, 0.030], "thinwire": [0.020, 0.0121, 0.012]})
        self.assertEqual((row["ddp_s"], row["thinwire_s"]), (0.011, 0.0121))
        self.assertEqual(row["overhead_percent"], 10.0)
        (bar,) = overhead.bars_of([row])
        self.assertFalse(bar["holds"])
        (bar,) = overhead.bars_of([row | {"overhead_percent": -30.0}])
        self.assertTrue(bar["holds"])


class PeersTest(unittest.TestCase):
    limited = peers.Setting(BENCH_MODEL, mbit=200, rounds=1, steps=1)
    unlimited = replace(limited, mbit=0)

    def runs(self, times):
        return [{"name": name, "step_s": step_s} for name, step_s in times.items()]

    def test_bars_are_against_the_better_peer(self):
        times = {"thinwire zero3": 4.0, "thinwire hpz": 3.5, "thinwire zero++": 1.5}
        times |= {"thinwire delta4": 1.2}
        times |= {"fsdp2": 8.4, "deepspeed": 6.0, "hsdp": 3.6, "ddp": 2.7}
        bars = peers.bars_of(self.limited, self.runs(times))
        self.assertEqual([bar["value"] for bar in bars], [1.5, 1.714, 4.0, 1.8, 5.0])
        self.assertEqual([bar["holds"] for bar in bars], [True, False, True, False, False])
        times = {"thinwire zero3": 0.9, "thinwire zero++": 0.8, "fsdp2": 0.99}
        bars = peers.bars_of(self.unlimited, self.runs(times))
        self.assertEqual([bar["value"] for bar in bars], [1.1, 1.125])

    def test_bars_of_python_are_against_the_same_peers(self):
        zero3, zeropp = "thinwire zero3, Python", "thinwire zero++, Python"
        times = {zero3: 0.9, zeropp: 0.8, "fsdp2": 1.2, "deepspeed": 0.88, "ddp-master": 0.6}
        bars = peers.bars_of(replace(self.unlimited, of_python=True), self.runs(times))
        self.assertEqual([bar["value"] for bar in bars], [1.5, 1.1, 0.75])
        self.assertEqual([bar["holds"] for bar in bars], [True, False, False])
        times |= {"fsdp2": 8.0, "hsdp": 3.2, "ddp": 1.2}
        runs = [run | {"wire_bytes_per_param": 0.78} for run in self.runs(times)]
        bars = peers.bars_of(replace(self.limited, of_python=True), runs)
        self.assertEqual([bar["value"] for bar in bars], [0.78, 1.1, 1.5])
        self.assertEqual([bar["holds"] for bar in bars], [True, False, False])

    def test_results_of_python_have_a_name_of_their_own(self):
        self.assertEqual(replace(self.limited, of_python=True).name, "peers-python-200")
        self.assertEqual(self.limited.name, "peers-200")

    def test_no_bars_of_other_settings(self):
        short = replace(BENCH_MODEL, sequence=64)
        for setting in (replace(self.limited, mbit=100), replace(self.limited, model=short)):
            self.assertEqual(peers.bars_of(setting, self.runs({"thinwire zero3": 4.0})), [])

    def test_a_missing_peer_leaves_the_bar_unmeasured(self):
        runs = self.runs({"thinwire zero3": 4.0, "fsdp2": 8.4})
        bars = [*peers.bars_of(self.limited, runs), *peers.bars_of(self.unlimited, [])]
        self.assertEqual({bar["holds"] for bar in bars}, {None})

    def test_bars_across_rates(self):
        slow = self.runs({"thinwire zero3": 7.0, "thinwire zero++": 2.0, "deepspeed": 13.0})
        fast = self.runs({"thinwire zero3": 1.9, "thinwire zero++": 0.7, "deepspeed": 3.3})
        bars = peers.bars_across(slow, fast)
        self.assertEqual([bar["value"] for bar in bars], [0.95, 1.65])
        self.assertEqual({bar["holds"] for bar in peers.bars_across(slow, [])}, {None})

    def test_median_of_the_rounds(self):
        samples = [peers.Sample(step_s, 5.8) for step_s in (8.0, 30.0, 8.2)]
        row = peers.summarize("hpz", 200.0, samples)
        self.assertEqual((row["name"], row["step_s"]), ("thinwire hpz", 8.2))

    def test_every_round_starts_with_another(self):
        order = []
        with (
            mock.patch.object(peers, "run_thinwire", lambda name, *_: order.append(name)
                              or peers.Sample(1.0, None)),
            contextlib.redirect_stdout(io.StringIO()),
        ):  # fmt: skip
            twice = replace(self.limited, rounds=2)
            peers.take_turns(["a", "b", "c"], twice, LogicalCluster(2, 0), HERE, HERE)
        self.assertEqual(order, ["a", "b", "c", "b", "c", "a"])


class PlanTest(WithFakeTrainer):
    def run_plan(self, seconds, predicted):
        """The result of plan.py at two rates, with runs that take `seconds` by (recipe, rate)."""

        def run(recipe, mbit, steps, data, folder):
            chosen = "hpz" if recipe == "auto" else recipe
            (folder / f"{recipe}-{mbit:g}").mkdir(exist_ok=True)
            (folder / f"{recipe}-{mbit:g}" / "planner.json").write_text(
                json.dumps(
                    {
                        "compute_s": 0.2,
                        "machine": {"slow": {"bytes_per_s": 5e7}, "cores_per_rank": 0.4},
                    }
                )
            )
            window = mock.Mock()
            window.step_s.return_value = seconds[chosen, mbit]
            return "emulated", mock.Mock(window=window, summary={"recipe": chosen})

        def predict(planner, alone):
            self.assertEqual((alone["compute_s"], alone["machine"]["cores_per_rank"]), (0.2, 0.4))
            mbit = float(planner.parent.name.partition("-")[2])
            return {
                recipe: {
                    "step_s": predicted[recipe, mbit],
                    "bytes_per_param": 4,
                    "expected_gap_percent": 0,
                    "excluded": "beyond the loss budget" if recipe == "ternary" else "",
                }
                for recipe in ("hpz", "ternary")
            }

        with mock.patch.object(plan, "run", run), mock.patch.object(plan, "predict", predict):
            code, out, _ = self.call(plan.main, "--quick")
        self.assertEqual(code, 0)
        return json.loads(out.splitlines()[-1])

    def test_errors_and_choices_have_bars(self):
        seconds = {("hpz", 400): 2.0, ("hpz", 0): 1.0, ("ternary", 400): 1.0, ("ternary", 0): 1.0}
        made = self.run_plan(seconds, seconds | {("hpz", 400): 1.5})
        self.assertEqual([bar["holds"] for bar in made["bars"]], [False, True, True, True])
        self.assertAlmostEqual(made["bars"][0]["value"], 0.25)
        # What the budget excludes does not compete.
        self.assertEqual(made["auto"][0]["over_best_fixed"], 1)
        self.assertEqual(len(made["rows"]), 4)


if __name__ == "__main__":
    unittest.main()
