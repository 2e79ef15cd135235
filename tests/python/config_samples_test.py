#!/usr/bin/env python3
"""Configs as users have them, and round trips through the effective config."""

import json
import unittest
from pathlib import Path

from thinwire import config

SAMPLES = sorted((Path(__file__).parent / "ds_configs").glob("*.json"))
# As the Trainer fills them in.
TRAINER = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "train_batch_size": 32,
    "gradient_clipping": 1.0,
    "optimizer.params.lr": 5e-5,
    "optimizer.params.betas": [0.9, 0.999],
    "optimizer.params.eps": 1e-8,
    "optimizer.params.weight_decay": 0.0,
    "scheduler.params.warmup_min_lr": 0,
    "scheduler.params.warmup_max_lr": 5e-5,
    "scheduler.params.warmup_num_steps": 0,
    "bf16.enabled": True,
    "fp16.enabled": False,
}


def sample(name):
    return Path(__file__).parent / "ds_configs" / f"{name}.json"


def has(notes, *words):
    return any(all(word in note for word in words) for note in notes)


class SamplesTest(unittest.TestCase):
    def test_hugging_face_zero3_filled_in_by_the_trainer(self):
        made = config.load(sample("hf_zero3_auto"), 4, TRAINER)
        self.assertEqual((made.stage, made.dtype, made.recipe), (3, "bf16", "zero3"))
        self.assertEqual((made.train_batch, made.micro_batch, made.micro_batches), (32, 4, 2))
        self.assertEqual((made.clipping, made.gather_on_save), (1.0, True))
        self.assertEqual(made.optimizer.params["lr"], 5e-5)
        self.assertEqual(made.scheduler.params["warmup_max_lr"], 5e-5)
        self.assertTrue(has(made.notes, "no effect", "reduce_bucket_size", "sub_group_size"))
        self.assertFalse(has(made.notes, "auto"))
        self.assertLess(len(made.notes), 6)

    def test_hugging_face_zero2_where_nobody_says_the_rate(self):
        with self.assertRaisesRegex(config.ConfigError, r"^optimizer\.params\.lr: .*auto"):
            config.load(sample("hf_zero2_auto"), 2)
        made = config.load(sample("hf_zero2_auto"), 2, {"optimizer.params.lr": 1e-4})
        self.assertEqual((made.stage, made.dtype, made.clipping), (2, None, None))
        self.assertEqual(made.scheduler.params["warmup_max_lr"], 1e-4)
        self.assertTrue(has(made.notes, "bf16.enabled", '"auto" is false'))

    def test_offload_is_an_error_that_says_what_to_do(self):
        with self.assertRaisesRegex(
            config.ConfigError, r"^zero_optimization\.offload_optimizer\.device: .*stage 3"
        ):
            config.load(sample("zero3_offload"), 2, TRAINER)

    def test_zero_plus_plus(self):
        made = config.load(sample("zeropp"), 8)
        self.assertEqual((made.recipe, made.hosts, made.ranks_per_host), ("zero++", 2, 4))
        self.assertIsNone(made.optimizer)
        with self.assertRaisesRegex(config.ConfigError, "train_batch_size"):
            config.load(sample("zeropp"), 4)

    def test_bf16_with_monitor_and_profiler(self):
        made = config.load(sample("zero1_bf16_plain"), 2)
        self.assertEqual((made.optimizer.type, made.comms_summary), ("adamw", True))
        self.assertTrue(has(made.notes, "no effect", "tensorboard.enabled"))
        self.assertFalse(has(made.notes, "flops_profiler"))

    def test_fp16_with_early_spellings(self):
        made = config.load(sample("zero2_fp16_cifar"), 4)
        self.assertEqual((made.micro_batch, made.micro_batches), (4, 1))
        self.assertEqual((made.dtype, made.loss_scale.initial_power), ("fp16", 15))
        text = sample("zero2_fp16_cifar").read_text().replace('offload": false', 'offload": true')
        with self.assertRaisesRegex(config.ConfigError, r"^zero_optimization\.cpu_offload: "):
            config.load(text, 4)

    def test_what_accelerate_makes(self):
        made = config.load(
            {
                "train_batch_size": "auto",
                "train_micro_batch_size_per_gpu": 1,
                "gradient_accumulation_steps": 1,
                "gradient_clipping": 1.0,
                "zero_optimization": {
                    "stage": 3,
                    "offload_optimizer": {"device": "none", "nvme_path": None},
                    "offload_param": {"device": "none", "nvme_path": None},
                    "stage3_gather_16bit_weights_on_model_save": False,
                },
                "steps_per_print": float("inf"),
                "fp16": {"enabled": True, "auto_cast": True},
                "bf16": {"enabled": False},
                "zero_allow_untested_optimizer": True,
            },
            2,
        )
        self.assertEqual((made.steps_per_print, made.cast_inputs), (None, True))

    def test_zero_as_a_boolean(self):
        made = config.load({"train_batch_size": 1, "zero_optimization": True})
        self.assertEqual(made.stage, 1)
        self.assertTrue(has(made.notes, "zero_optimization", "deprecated"))


class EffectiveTest(unittest.TestCase):
    def test_reading_the_effective_config_gives_the_same_run(self):
        for path in SAMPLES:
            if path.stem == "zero3_offload":
                continue
            with self.subTest(path.stem):
                made = config.load(path, 8 if path.stem == "zeropp" else 4, TRAINER)
                effective = made.effective()
                self.assertEqual(json.loads(json.dumps(effective)), effective)
                again = config.load(effective, made.world_size)
                self.assertEqual(again.effective(), effective)
                self.assertTrue(again.same_run(made))
                self.assertEqual(again.notes, ())


if __name__ == "__main__":
    unittest.main()
