#!/usr/bin/env python3
"""What a run tells of itself is true: ranges of hops in torch.profiler, traffic, lines, memory."""

import ctypes
import json
import re
import tempfile
import unittest
from pathlib import Path

import launch
import reports
import torch
from thinwire.trace import steps_in
from torch import nn

import thinwire

torch.set_num_threads(1)  # before ranks are forked: the tests share few cores

_HOP = re.compile(r"thinwire::(?P<hop>\w+ \w+) (?P<unit>\S+) \[(?P<bytes>\d+) bytes\]")


def _all(rank, world, folder):
    """In one launch, since a launch takes longer than a case."""
    return {
        "ranges": {slow: reports.ranges(rank, world, "zero3", slow) for slow in (False, True)},
        "pushes": reports.ranges(rank, world, "zero++", True),
        "traffic": {
            (recipe, slow, micro): reports.traffic(rank, world, recipe, slow, micro)
            for recipe, slow, micro in (
                ("zero3", False, 1),
                ("zero3", True, 1),
                ("zero++", True, 1),
                ("hpz", True, 3),
            )
        },
        "lines": reports.lines(rank, world),
        "choice": reports.choice(rank, world),
        "timelines": reports.timelines(rank, world, folder),
    }


class ReportsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.ranks = launch.run(2, _all, folder)
            cls.traces = {
                path.name: json.loads(path.read_text()) for path in Path(folder).iterdir()
            }

    def check_ranges(self, found, hops):
        """Every unit has its ranges on every one of `hops`, as many as there were exchanges."""
        names, inside, calls, own_threads = found
        self.assertTrue(own_threads)
        by_hop = {}
        for name, count in names.items():
            match = _HOP.fullmatch(name)
            self.assertTrue(match, name)
            self.assertGreater(int(match["bytes"]), 0)
            by_hop.setdefault(match["hop"], {})[match["unit"]] = count
        self.assertEqual(by_hop.keys(), hops)
        units = {"Transformer", "blocks.0", "blocks.1", "blocks.2", "twice"}
        for hop, counts in by_hop.items():
            self.assertEqual(counts.keys(), units, hop)
            more = sum(counts.values()) - calls[hop]  # of the evaluation that ends the profile
            self.assertTrue(0 <= more <= (2 * len(units) if "gather" in hop else 0), (hop, more))
        return {_HOP.fullmatch(name)["hop"] for name in inside}

    def test_ranges_of_hops_also_in_backward(self):
        for rank in self.ranks:
            for slow, hops in (
                (False, {"fast gather", "fast reduce"}),
                (True, {"slow gather", "slow reduce"}),
            ):
                self.assertEqual(self.check_ranges(rank["ranges"][slow], hops), hops)
            # New weights are pushed after the step.
            inside = self.check_ranges(rank["pushes"], {"slow gather", "slow reduce"})
            self.assertEqual(inside, {"slow reduce"})

    def test_traffic_is_what_the_plan_says(self):
        for rank in self.ranks:
            for case, (sent, predicted, text) in rank["traffic"].items():
                with self.subTest(case=case):
                    self.assertEqual(sent, predicted)
                    self.assertGreater(sum(sent.values()), 0)
                    self.assertIn("none: it has one member", text)

    def test_lines_are_those_that_the_config_asks_for(self):
        self.assertEqual(self.ranks[1]["lines"], "")
        text = self.ranks[0]["lines"]
        number = r"[\d.]+"
        lines = re.findall(
            rf"step (\d+): loss {number}, lr 0.001, {number} samples/s, {number} ms/step\n", text
        )
        self.assertEqual(lines, ["3", "6"])
        parts = re.findall(
            rf"step (\d+): forward ({number}), backward ({number}), step ({number}), "
            rf"the rest ({number}) of ({number}) ms/step",
            text,
        )
        self.assertEqual([step for step, *_ in parts], ["3", "6"])
        for _, *times, whole in parts:
            self.assertAlmostEqual(sum(map(float, times)), float(whole), delta=0.3)
            self.assertTrue(all(float(time) > 0 for time in times[:3]), times)
        self.assertIn("thinwire: communication of rank 0 in 6 steps", text)

    def test_a_chosen_recipe_says_why_and_is_reviewed(self):
        self.assertEqual(self.ranks[1]["choice"], "")
        text = self.ranks[0]["choice"]
        self.assertIn("recipe auto: slow link of a host", text)
        chosen = re.search(r"-> (\S+)", text)[1]
        self.assertIn(chosen, ("zero3", "hpz"))  # what the budget allows
        self.assertIn(f"plan: recipe {chosen}", text)
        reviews = re.findall(rf"recipe {chosen} after (\d+) steps: \S+ s per step measured", text)
        self.assertEqual(reviews, ["13", "16"])

    def test_a_timeline_has_the_steps_that_were_asked_for_on_all_ranks(self):
        self.assertEqual(self.traces.keys(), {"config.json", "call.json"})
        for name, steps in (("config.json", {3, 4}), ("call.json", {5, 6})):
            events = self.traces[name]["traceEvents"]
            found = [(e["pid"], e["name"]) for e in events if e.get("cat") == "step"]
            self.assertEqual(sorted(found), [(r, f"step {s}") for r in (0, 1) for s in steps])
            names = {event["name"] for event in events}
            for unit in ("blocks.0", "blocks.2", "twice"):
                self.assertLessEqual(
                    {f"forward {unit}", f"backward {unit}", f"send: slow reduce {unit}"}, names
                )
        text, refused = self.ranks[0]["timelines"]
        self.assertEqual(text.count("where the time went"), 2)
        self.assertIn("is/not/there.json", refused)
        text, refused = self.ranks[1]["timelines"]
        self.assertEqual(text, "")
        self.assertIn("failed on another rank", refused)

    def test_steps_of_a_timeline_are_checked(self):
        self.assertEqual(steps_in("5..8"), (5, 8))
        self.assertEqual(steps_in("5"), (5, 5))
        self.assertEqual(steps_in(None), (3, 6))
        for text in ("8..5", "0..3", "..", "a", "1..2..3"):
            with self.assertRaisesRegex(thinwire.native._native.UsageError, "trace_steps"):
                steps_in(text)


class MemoryTest(unittest.TestCase):
    def test_estimates_are_what_is_used(self):
        ctypes.CDLL(None).mallopt(-3, 1 << 16)  # M_MMAP_THRESHOLD: what is freed is given back
        stage = lambda number: {"zero_optimization": {"stage": number}}  # noqa: E731
        cases = {
            "zero3": ("zero3", False, {}),
            "zero3 over slow links": ("zero3", True, {}),
            "zero++": ("zero++", True, {}),
            "micro-batches": ("zero++", True, {"gradient_accumulation_steps": 4}),
            "stage 2": ("zero3", False, stage(2)),
            "stage 1": ("zero3", True, stage(1) | {"gradient_accumulation_steps": 2}),
        }
        for rank in launch.run(2, reports.memory, cases):
            for case, (estimated, built, trained) in rank.items():
                with self.subTest(case=case):
                    self.assertAlmostEqual(built / estimated, 1, delta=0.03)
                    self.assertAlmostEqual(trained / estimated, 1, delta=0.1)

    def test_large_layers_are_not_in_the_root_also_where_blocks_are_many(self):
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "AdamW"},
            "zero_optimization": {"stage": 3},
        }
        with torch.device("meta"):
            deep = nn.Sequential(
                nn.Embedding(1200, 1000),
                nn.Sequential(*[nn.Sequential(nn.Linear(1000, 1000)) for _ in range(200)]),
                nn.Linear(1000, 1200, bias=False),
            )
        estimate = thinwire.estimate_memory(deep, config, hosts=16, ranks_per_host=8)
        sizes = {part.kind: part.per_rank for part in estimate.parts}
        self.assertEqual(sizes["3 unit buffers, fp32"], 3 * 4 * 1_200_000)
        self.assertIn("memory of 16 x 8 ranks", str(estimate))
        self.assertEqual(estimate.per_rank, sum(sizes.values()))


if __name__ == "__main__":
    unittest.main()
