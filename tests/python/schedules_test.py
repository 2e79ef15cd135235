#!/usr/bin/env python3
"""DeepSpeed's schedules against its documented formulas, worked out by hand; with torch, as a
torch scheduler too."""

import math
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import config_page  # noqa: E402

try:
    import torch
except ImportError:  # the formulas are tested without it
    torch = None

config = config_page.import_config()
schedules = config_page.import_config("thinwire.schedules")


def scheduler(kind, **params):
    return config.load({"scheduler": {"type": kind, "params": params}}).scheduler


def rates(made, steps, lr=0.5):
    return [schedules.point(made, step, lr).lr for step in range(steps)]


class FormulaTest(unittest.TestCase):
    def close(self, found, expected):
        for a, b in zip(found, expected, strict=True):
            self.assertAlmostEqual(a, b, places=12)

    def test_warmup(self):
        made = scheduler(
            "WarmupLR",
            warmup_min_lr=0.1,
            warmup_max_lr=0.5,
            warmup_num_steps=4,
            warmup_type="linear",
        )
        self.close(rates(made, 8), [0.1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5])

    def test_warmup_by_the_logarithm_to_the_optimizers_rate(self):
        made = scheduler("WarmupLR", warmup_num_steps=4)
        ln = [math.log(n) / math.log(4) for n in (1, 2, 3, 4)]
        self.close(rates(made, 7, lr=2.0), [0, *(2 * x for x in ln), 2.0, 2.0])

    def test_warmup_of_one_step_divides_by_no_zero(self):
        for steps in (0, 1, 2):
            made = scheduler("WarmupLR", warmup_max_lr=1.0, warmup_num_steps=steps)
            self.close(rates(made, 5), [0, 0, 1, 1, 1])

    def test_warmup_then_decay(self):
        made = scheduler(
            "WarmupDecayLR",
            warmup_max_lr=1.0,
            warmup_num_steps=2,
            total_num_steps=6,
            warmup_type="linear",
        )
        self.close(rates(made, 10), [0, 0, 0.5, 1, 0.75, 0.5, 0.25, 0, 0, 0])

    def test_warmup_longer_than_the_run(self):
        for kind in ("WarmupDecayLR", "WarmupCosineLR"):
            for rate in rates(scheduler(kind, warmup_num_steps=9, total_num_steps=3), 20):
                self.assertTrue(0 <= rate <= 0.5)

    def test_warmup_then_cosine(self):
        made = scheduler(
            "WarmupCosineLR",
            warmup_min_ratio=0.2,
            warmup_num_steps=2,
            warmup_type="linear",
            total_num_steps=6,
            cos_min_ratio=0.1,
        )
        cosine = [0.1 + 0.9 * (1 + math.cos(math.pi * k / 4)) / 2 for k in (1, 2, 3, 4, 4)]
        self.close(rates(made, 8, lr=1.0), [0, 0.2, 0.6, *cosine])

    def test_range_test(self):
        params = {
            "lr_range_test_min_lr": 0.1,
            "lr_range_test_step_size": 2,
            "lr_range_test_step_rate": 3.0,
        }
        self.close(rates(scheduler("LRRangeTest", **params), 4), [0.1, 0.25, 0.4, 0.55])
        made = scheduler("LRRangeTest", lr_range_test_staircase=True, **params)
        self.close(rates(made, 5), [0.1, 0.1, 0.4, 0.4, 0.7])

    def test_one_cycle(self):
        made = scheduler(
            "OneCycle",
            cycle_min_lr=0.1,
            cycle_max_lr=0.5,
            cycle_first_step_size=4,
            cycle_second_step_size=2,
            decay_step_size=2,
            decay_lr_rate=1.0,
            cycle_min_mom=0.8,
            cycle_max_mom=0.9,
            decay_mom_rate=0.1,
        )
        self.close(
            rates(made, 9), [0.1, 0.2, 0.3, 0.4, 0.5, 0.3, 0.1, 0.1 / (1 + 0.5), 0.1 / (1 + 1)]
        )
        momenta = [schedules.point(made, step, 0.5).momentum for step in range(8)]
        self.close(momenta, [0.9, 0.875, 0.85, 0.825, 0.8, 0.85, 0.9, 0.9 * 1.05])
        self.assertLess(schedules.point(made, 10**9, 0.5).momentum, 1)

    def test_one_cycle_in_stairs_without_decay_or_momentum(self):
        made = scheduler(
            "OneCycle",
            cycle_min_lr=0.0,
            cycle_max_lr=1.0,
            cycle_first_step_size=4,
            cycle_first_stair_count=2,
            cycle_momentum=False,
        )
        self.close(rates(made, 11), [0, 0, 0.5, 0.5, 1, 0.5, 0.5, 0, 0, 0, 0])
        self.assertIsNone(schedules.point(made, 3, 0.5).momentum)

    def test_extreme_parameters_end_in_numbers(self):
        huge = 10**12
        cases = [
            scheduler("OneCycle", cycle_min_lr=0, cycle_max_lr=1, cycle_second_step_size=0),
            scheduler("OneCycle", cycle_min_lr=0, cycle_max_lr=1, cycle_first_stair_count=huge),
            scheduler("WarmupCosineLR", total_num_steps=0, warmup_num_steps=0),
            scheduler("WarmupDecayLR", total_num_steps=huge, warmup_num_steps=huge),
            scheduler("LRRangeTest", lr_range_test_step_rate=0),
        ]
        for made in cases:
            for step in (0, 1, 2, 1999, 2000, 2001, huge):
                self.assertTrue(math.isfinite(schedules.point(made, step, 0.5).lr))


@unittest.skipUnless(torch, "this Python has no torch")
class TorchTest(unittest.TestCase):
    CYCLE = {"cycle_min_lr": 0.1, "cycle_max_lr": 0.5, "cycle_first_step_size": 3}

    def run_steps(self, optimizer, schedule, steps):
        found = []
        for _ in range(steps):
            found.append([group["lr"] for group in optimizer.param_groups])
            optimizer.step()
            schedule.step()
        return found

    def make(self, made, optimizer=None, **more):
        module = config_page.import_config("thinwire.scheduler")
        a, b = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
        groups = [{"params": [a], "lr": 0.5}, {"params": [b], "lr": 0.25}]
        optimizer = (optimizer or torch.optim.AdamW)(groups, **more)
        return optimizer, module.Schedule(optimizer, made)

    def test_groups_start_from_their_own_rates(self):
        made = scheduler("WarmupCosineLR", total_num_steps=9, warmup_num_steps=3)
        found = self.run_steps(*self.make(made), 12)
        self.assertEqual([a for a, _ in found], rates(made, 12, 0.5))
        self.assertEqual([b for _, b in found], rates(made, 12, 0.25))

    def test_momentum_moves_too(self):
        optimizer, schedule = self.make(scheduler("OneCycle", **self.CYCLE))
        self.run_steps(optimizer, schedule, 3)
        self.assertEqual([g["betas"] for g in optimizer.param_groups], [(0.8, 0.999)] * 2)
        optimizer, schedule = self.make(
            scheduler("OneCycle", **self.CYCLE), torch.optim.SGD, momentum=0.3
        )
        self.run_steps(optimizer, schedule, 3)
        self.assertEqual([g["momentum"] for g in optimizer.param_groups], [0.8] * 2)

    def test_a_resumed_schedule_goes_on(self):
        made = scheduler("OneCycle", **self.CYCLE)
        whole = self.run_steps(*self.make(made), 9)
        optimizer, schedule = self.make(made)
        self.run_steps(optimizer, schedule, 4)
        states = optimizer.state_dict(), schedule.state_dict()
        self.assertNotIn("scheduler", states[1])
        optimizer, schedule = self.make(made)
        optimizer.load_state_dict(states[0])
        schedule.load_state_dict(states[1])
        self.assertEqual(self.run_steps(optimizer, schedule, 5), whole[4:])


if __name__ == "__main__":
    unittest.main()
