#!/usr/bin/env python3
"""Configs: every key of the table does what the table says, and bad input is one clear line."""

import difflib
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import config_page  # noqa: E402

from thinwire import config  # noqa: E402

table = config_page.import_config("thinwire.config.table")
keys = config_page.import_config("thinwire.config.key")
kinds = config_page.import_config("thinwire.config.kinds")
Effect = keys.Effect

MINIMAL = {"train_micro_batch_size_per_gpu": 2}
NUMERIC = [k for k in table.KEYS.values() if isinstance(k.kind, (kinds.Integer, kinds.Number))]
# What a scheduler cannot be without.
NEEDED = {
    "OneCycle": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.7},
    "WarmupDecayLR": {"total_num_steps": 7},
    "WarmupCosineLR": {"total_num_steps": 7},
}


def put(tree, path, value):
    """`tree` with `value` at `path`, in sections made as needed."""
    first, _, rest = path.partition(".")
    return tree | {first: put(tree.get(first) or {}, rest, value) if rest else value}


def get(tree, path):
    for name in path.split("."):
        tree = tree[name]
    return tree


def around(key):
    """The config in which `key` can be given: its section on, its optimizer or scheduler chosen."""
    tree = dict(MINIMAL)
    gate = table.KEYS.get(table.SECTIONS[key.section].gate)
    if gate is not None and gate is not key and gate.effect is not Effect.REFUSED:
        tree = put(tree, gate.path, True)
    owner, _, _ = key.path.partition(".params.")
    if owner in ("optimizer", "scheduler") and owner != key.path:
        kind = key.only[0] if key.only else {"optimizer": "AdamW", "scheduler": "WarmupLR"}[owner]
        tree = put(tree, f"{owner}.type", kind)
        for name, value in NEEDED.get(kind, {}).items():
            tree = put(tree, f"{owner}.params.{name}", value)
    return tree


def has_refused_gate(key):
    gate = table.KEYS.get(table.SECTIONS[key.section].gate)
    return gate is not None and gate.effect is Effect.REFUSED


def noted(settings, path, words=""):
    return any(path in note and words in note for note in settings.notes)


class ConfigCase(unittest.TestCase):
    def refuses(self, tree, path, *words, world_size=1, **more):
        """The error that `tree` ends with: one line that begins with `path` and has `words`."""
        with self.assertRaises(config.ConfigError) as caught:
            config.load(tree, world_size, **more)
        line = str(caught.exception)
        self.assertRegex(line, r"^\S+: expected .+, found .+")
        self.assertTrue(line.startswith(f"{path}:"), line)
        self.assertNotIn("\n", line)
        self.assertLess(len(line), 500)
        for word in words:
            self.assertIn(word, line)
        return line


class EveryKeyTest(ConfigCase):
    # What they say is part of something else in the effective config.
    ELSEWHERE = {
        "zero_optimization.zero_quantized_weights": ("thinwire.recipe", "qwz"),
        "zero_optimization.zero_quantized_gradients": ("thinwire.recipe", "qgz"),
        "optimizer.params.adam_w_mode": ("optimizer.type", "Adam"),
        "optimizer.params.torch_adam": ("optimizer.params.weight_decay", 0.01),
    }
    # Samples that suit their neighbours.
    SAMPLES = {
        "train_batch_size": 2,
        "train_micro_batch_size_per_gpu": 3,
        "thinwire.recipe": "qwz+hpz",
        "thinwire.hosts": 1,
        "thinwire.ranks_per_host": 1,
        "optimizer.params.min_coeff": 0.5,
        "scheduler.params.warmup_min_lr": 0.0005,
        "communication_data_type": "fp16",
    }

    def test_honoured_keys_reach_the_effective_config(self):
        for key in table.KEYS.values():
            if key.effect is not Effect.HONOURED or key.path in ("communication_data_type",):
                continue
            if key.path == "zero_optimization.zero_hpz_partition_size":
                continue  # needs ranks: TopologyTest
            with self.subTest(key.path):
                sample = self.SAMPLES.get(key.path, key.kind.sample(key.default))
                tree = put(around(key), key.path, sample)
                if key.path == "scheduler.type":
                    tree = put(tree, "scheduler.params", NEEDED.get(sample, {}))
                if key.path == "optimizer.params.adam_w_mode":
                    tree = put(tree, "optimizer.type", "Adam")
                settings = config.load(tree)
                if key.path == "optimizer.type":
                    sample = "AdamW"  # which Adam is, unless adam_w_mode is false
                path, value = self.ELSEWHERE.get(key.path, (key.path, sample))
                value = list(value) if isinstance(value, tuple) else value
                self.assertEqual(get(settings.effective(), path), value)
                self.assertFalse(noted(settings, key.path, "no effect"))

    def test_keys_without_effect_are_named_with_the_reason(self):
        for key in table.KEYS.values():
            if key.effect is not Effect.NO_EFFECT or has_refused_gate(key):
                continue
            with self.subTest(key.path):
                plain = config.load(around(key))
                settings = config.load(put(around(key), key.path, key.kind.sample(key.default)))
                self.assertTrue(noted(settings, key.path, key.text))
                self.assertTrue(settings.same_run(plain))

    def test_refused_keys_say_what_to_do_instead(self):
        for key in table.KEYS.values():
            if key.effect is not Effect.REFUSED:
                continue
            with self.subTest(key.path):
                sample = key.kind.sample(key.default)
                self.refuses(put(around(key), key.path, sample), key.path, key.text)

    def test_refused_keys_may_ask_for_nothing(self):
        for key in table.KEYS.values():
            if key.effect is not Effect.REFUSED:
                continue
            for quiet in (key.default, *key.quiet):
                with self.subTest(key.path, value=quiet):
                    plain = config.load(around(key))
                    settings = config.load(put(around(key), key.path, quiet))
                    self.assertTrue(settings.same_run(plain))

    def test_blocks_that_are_off_are_checked_but_not_talked_about(self):
        off = [k for k in table.KEYS.values() if table.SECTIONS[k.section].gate not in ("", k.path)]
        self.assertGreater(len(off), 80)
        for key in off:
            with self.subTest(key.path):
                value = key.kind.sample(key.default)
                settings = config.load(put(MINIMAL, key.path, value))
                self.assertFalse(noted(settings, key.path))
        self.refuses(put(MINIMAL, "elasticity.min_gpus", "four"), "elasticity.min_gpus")

    def test_deprecated_names_are_read_with_a_note(self):
        for alias, path in table.ALIASES.items():
            if path in table.SECTIONS:
                continue
            with self.subTest(alias):
                key = table.KEYS[path]
                sample = key.kind.sample(key.default)
                settings = config.load(put(around(key), alias, sample))
                self.assertTrue(noted(settings, alias, path))
                self.assertTrue(settings.same_run(config.load(put(around(key), path, sample))))
                self.refuses(put(put(around(key), alias, sample), path, sample), alias, "spellings")

    def test_a_section_has_a_deprecated_name_too(self):
        settings = config.load(MINIMAL | {"bfloat16": {"enabled": True}})
        self.assertEqual(settings.dtype, "bf16")
        self.assertTrue(noted(settings, "bfloat16", "bf16"))
        both = MINIMAL | {"bfloat16": {"enabled": True}, "bf16": {"enabled": True}}
        self.refuses(both, "bfloat16", "spellings")

    def test_every_text_fits_a_line(self):
        for key in table.KEYS.values():
            self.assertTrue(0 < len(key.text) < 160, key.path)
            self.assertEqual(key.text, key.text.strip(". "), key.path)


class UnknownKeyTest(ConfigCase):
    def test_every_misspelt_key_finds_its_name(self):
        for key in table.KEYS.values():
            if len(key.name) < 5:
                continue
            wrong = key.name[:2] + key.name[3:]  # a letter is missing
            near = difflib.get_close_matches(wrong, table.names_in(key.section), n=1)[0]
            path = f"{key.section}.{wrong}" if key.section else wrong
            right = f"{key.section}.{near}" if key.section else near
            with self.subTest(path):
                self.refuses(put(around(key), path, 1), path, f'did you mean "{right}"?')

    def test_a_key_in_the_wrong_place_is_sent_to_the_right_one(self):
        self.refuses(MINIMAL | {"stage": 3}, "stage", '"zero_optimization.stage"')
        tree = put(MINIMAL, "zero_optimization.gradient_clipping", 1.0)
        self.refuses(tree, "zero_optimization.gradient_clipping", '"gradient_clipping"')
        self.refuses(MINIMAL | {"recipe": "zero++"}, "recipe", '"thinwire.recipe"')

    def test_nothing_near_points_to_the_table(self):
        self.refuses(MINIMAL | {"qqqqqq": 3}, "qqqqqq", "docs/deepspeed_config.md")

    def test_parameters_of_another_optimizer(self):
        tree = put(put(MINIMAL, "optimizer.type", "AdamW"), "optimizer.params.momentum", 0.9)
        self.refuses(tree, "optimizer.params.momentum", "AdamW", "betas")
        tree = put(MINIMAL, "optimizer.params.lr", 0.1)
        self.refuses(tree, "optimizer.params.lr", "optimizer.type")

    def test_parameters_of_another_scheduler(self):
        tree = put(MINIMAL, "scheduler.type", "WarmupLR")
        tree = put(tree, "scheduler.params.total_num_steps", 10)
        self.refuses(tree, "scheduler.params.total_num_steps", "WarmupLR")

    def test_types_by_name(self):
        tree = put(MINIMAL, "optimizer.type", "adamw")
        self.assertEqual(config.load(tree).optimizer.type, "adamw")
        self.refuses(put(MINIMAL, "optimizer.type", "AdmW"), "optimizer.type", '"AdamW"?')
        self.refuses(put(MINIMAL, "scheduler.type", "WarmupDecay"), "scheduler.type", "Decay")
        for name in ("OneBitAdam", "ZeroOneAdam", "OneBitLamb", "Muon", "Adagrad"):
            tree = MINIMAL | {"optimizer": {"params": {"freeze_step": 9}, "type": name}}
            self.refuses(tree, "optimizer.type", name, "Adam, AdamW, Lamb, Lion, SGD")


class FuzzTest(ConfigCase):
    WRONG = (True, False, "7", "1e5", "", float("nan"), float("-inf"), [], [1], {}, {"a": 1}, 1j)
    EDGES = (
        None,
        0,
        -1,
        1,
        0.5,
        -0.0,
        1e308,
        2**31,
        2**63,
        -(2**63),
        10**400,
        float("inf"),
        "auto",
    )

    def outcome(self, tree, path, **more):
        """None, or the error's line; anything but a ConfigError fails the test."""
        try:
            config.load(tree, **more)
        except config.ConfigError as error:
            line = str(error)
            self.assertRegex(line, r'^(\S+: expected .+, found .+|thinwire\.recipe(, \w+)? = ".*)')
            self.assertNotIn("\n", line)
            self.assertIn(path, line)
            return line
        return None

    def test_no_number_is_of_another_type(self):
        self.assertGreater(len(NUMERIC), 90)
        for key in NUMERIC:
            for value in self.WRONG:
                with self.subTest(key.path, value=value):
                    line = self.outcome(put(around(key), key.path, value), key.path)
                    self.assertIsNotNone(line)
                    self.assertTrue(line.startswith(key.path), line)

    def test_numbers_at_their_edges(self):
        for key in NUMERIC:
            for value in self.EDGES:
                with self.subTest(key.path, value=value):
                    line = self.outcome(put(around(key), key.path, value), key.path)
                    if value in (10**400, 2**63, -(2**63), -1) and key.kind.least > -1:
                        beyond = isinstance(key.kind, kinds.Number) and abs(value) < 10**38
                        self.assertTrue(line or (beyond and value > 0), value)

    def test_values_of_auto_are_checked_too(self):
        for key in NUMERIC:
            if key.auto is keys.NO_AUTO:
                continue
            for value in self.WRONG:
                with self.subTest(key.path, value=value):
                    tree = put(around(key), key.path, "auto")
                    line = self.outcome(tree, key.path, auto={key.path: value})
                    self.assertIsNotNone(line)

    def test_everything_else_survives_the_same_values(self):
        for key in table.KEYS.values():
            for value in (*self.WRONG, *self.EDGES, "x" * 5000, "a\nb", "\u2028", [[[]]] * 3):
                with self.subTest(key.path, value=str(value)[:20] if value != 10**400 else "big"):
                    self.outcome(put(around(key), key.path, value), key.section)

    def test_sections_are_objects(self):
        for path in table.SECTIONS:
            for value in (1, "text", [], True) if path else ():
                if path == "zero_optimization" and value is True:
                    continue
                with self.subTest(path, value=value):
                    self.refuses(put(MINIMAL, path, value), path, "an object")

    def test_world_size(self):
        for value in (0, -1, 2**40, True, "4", None, float("nan"), 1.5):
            with self.subTest(value=value):
                self.refuses(MINIMAL, "world_size", world_size=value)


class SourceTest(ConfigCase):
    def test_dict_path_and_text_are_the_same(self):
        text = json.dumps(MINIMAL)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ds.json"
            path.write_text(text)
            every = [config.load(each) for each in (MINIMAL, text, path, str(path))]
        self.assertEqual(every, [every[0]] * 4)

    def test_the_callers_dict_is_left_alone(self):
        tree = put(put(MINIMAL, "zero_optimization.reduce_bucket_size", "auto"), "bf16", {})
        before = json.dumps(tree)
        config.load(tree).effective()["zero_optimization"]["stage"] = 9
        self.assertEqual(json.dumps(tree), before)

    def test_a_key_may_stand_once(self):
        self.refuses('{"bf16": {"enabled": true, "enabled": false}}', "bf16.enabled", "twice")
        self.refuses('{"amp": {}, "amp": {}}', "amp", "twice")

    def test_what_is_no_config(self):
        self.refuses('{"a": 1', "config", "line 1")
        self.refuses("[1]", "config", "a JSON object")
        self.refuses("/nowhere/ds.json", "config", "No such file")
        self.refuses("with\0zero", "config")
        self.refuses("x" * 5000, "config")
        self.refuses(7, "config", "a dict")
        self.refuses(None, "config", "null")
        self.refuses({1: 2}, "config", "strings as keys")
        self.refuses(MINIMAL | {"amp": {"x": object()}}, "amp.x", "object")
        self.refuses('{"a":' * 100000, "config", "JSON")
        self.refuses('{"train_batch_size": ' + "9" * 5000 + "}", "config", "digits")
        self.refuses('{"gradient_clipping": 1e999}', "gradient_clipping", "inf")
        self.refuses('{"gradient_clipping": NaN}', "gradient_clipping", "nan")
        self.refuses('{"checkpoint": {"writer": {"x": [NaN]}}}', "checkpoint.writer")

    def test_files_that_are_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ds.json"
            path.write_bytes(b"\xff\xfe{}")
            self.refuses(path, "config", "utf-8")
            self.refuses(folder, "config", "directory")

    def test_a_dict_that_holds_itself(self):
        tree = dict(MINIMAL)
        tree["amp"] = tree
        with self.assertRaises(config.ConfigError):
            config.load(tree)


class BatchTest(ConfigCase):
    def triple(self, world_size, **given):
        names = {
            "train": "train_batch_size",
            "micro": "train_micro_batch_size_per_gpu",
            "passes": "gradient_accumulation_steps",
        }
        settings = config.load({names[k]: v for k, v in given.items()}, world_size)
        return settings.train_batch, settings.micro_batch, settings.micro_batches

    def test_any_two_give_the_third(self):
        for world in (1, 2, 3, 6):
            for micro in (1, 2, 5):
                for passes in (1, 3):
                    whole = (micro * passes * world, micro, passes)
                    self.assertEqual(self.triple(world, train=whole[0], micro=micro), whole)
                    self.assertEqual(self.triple(world, train=whole[0], passes=passes), whole)
                    self.assertEqual(self.triple(world, micro=micro, passes=passes), whole)

    def test_one_alone_leaves_the_others_small(self):
        self.assertEqual(self.triple(4, train=8), (8, 2, 1))
        self.assertEqual(self.triple(4, micro=2), (8, 2, 1))
        self.assertEqual(self.triple(4, passes=3), (None, None, 3))
        self.assertEqual(self.triple(4), (None, None, 1))

    def test_contradictions(self):
        tree = {
            "train_batch_size": 30,
            "train_micro_batch_size_per_gpu": 4,
            "gradient_accumulation_steps": 2,
        }
        self.refuses(tree, "train_batch_size", "4 x 2 x 4 = 32", "found 30", world_size=4)
        del tree["gradient_accumulation_steps"]
        self.refuses(tree, "train_batch_size", "a multiple of", "4 x 4", world_size=4)
        tree = {"train_batch_size": 3}
        self.refuses(tree, "train_batch_size", "a multiple of", world_size=4)

    def test_products_do_not_overflow(self):
        most = 2**31 - 1
        tree = {"train_micro_batch_size_per_gpu": most, "gradient_accumulation_steps": most}
        self.refuses(tree, "train_micro_batch_size_per_gpu", "2^63", world_size=2**20)


class TopologyTest(ConfigCase):
    def topology(self, world_size, zero=None, **own):
        tree = MINIMAL | {"zero_optimization": {"stage": 3} | (zero or {}), "thinwire": own}
        settings = config.load(tree, world_size)
        return settings.hosts, settings.ranks_per_host, settings.recipe

    def test_hosts_and_ranks(self):
        self.assertEqual(self.topology(4), (None, None, "zero3"))
        self.assertEqual(self.topology(4, hosts=2), (2, 2, "zero3"))
        self.assertEqual(self.topology(6, ranks_per_host=3), (2, 3, "zero3"))
        hpz = {"zero_hpz_partition_size": 2}
        self.assertEqual(self.topology(6, hpz), (3, 2, "hpz"))
        self.assertEqual(self.topology(6, hpz, hosts=3, ranks_per_host=2), (3, 2, "hpz"))
        self.assertEqual(self.topology(6, {"zero_hpz_partition_size": 1}), (None, None, "zero3"))

    def test_contradictions(self):
        hpz = "zero_optimization.zero_hpz_partition_size"
        tree = put(put(MINIMAL, hpz, 2), "thinwire.ranks_per_host", 4)
        self.refuses(tree, hpz, "thinwire.ranks_per_host = 4", "found 2", world_size=8)
        self.refuses(put(MINIMAL, hpz, 4), hpz, "a divisor", "6", world_size=6)
        tree = put(put(MINIMAL, hpz, 2), "thinwire.hosts", 2)
        self.refuses(tree, hpz, "8 ranks", "2 x 2 = 4", world_size=8)
        self.refuses(put(MINIMAL, "thinwire.hosts", 3), "thinwire.hosts", world_size=4)

    def test_flags_of_zero_plus_plus_are_recipes(self):
        names = {
            "qwz": {"zero_quantized_weights": True},
            "hpz": {"zero_hpz_partition_size": 2},
            "qgz": {"zero_quantized_gradients": True},
        }
        for recipe in ("qwz", "hpz", "qgz", "qwz+hpz", "qwz+qgz", "hpz+qgz"):
            zero = {}
            for part in recipe.split("+"):
                zero |= names[part]
            self.assertEqual(self.topology(4, zero)[2], recipe)
            self.assertEqual(self.topology(4, zero, recipe=recipe)[2], recipe)
        everything = names["qwz"] | names["hpz"] | names["qgz"]
        self.assertEqual(self.topology(4, everything)[2], "zero++")

    def test_below_stage_3_hpz_gives_the_ranks_only(self):
        tree = put(MINIMAL, "zero_optimization.stage", 2)
        settings = config.load(put(tree, "zero_optimization.zero_hpz_partition_size", 2), 4)
        self.assertEqual((settings.recipe, settings.ranks_per_host), ("zero3", 2))
        self.assertTrue(noted(settings, "zero_hpz_partition_size", "below stage 3"))


class AutoTest(ConfigCase):
    def test_auto_is_the_callers_value_or_our_default(self):
        tree = put(put(MINIMAL, "optimizer.type", "AdamW"), "optimizer.params.lr", "auto")
        tree = put(tree, "optimizer.params.eps", "auto")
        settings = config.load(tree, auto={"optimizer.params.lr": 3e-4})
        self.assertEqual(settings.optimizer.params["lr"], 3e-4)
        self.assertEqual(settings.optimizer.params["eps"], 1e-8)
        self.assertTrue(noted(settings, "optimizer.params.eps", '"auto" is 1e-08'))
        self.assertFalse(noted(settings, "optimizer.params.lr"))
        self.refuses(tree, "optimizer.params.lr", '"auto"', "auto={")

    def test_auto_of_the_stage_divides_all(self):
        tree = put(MINIMAL, "zero_optimization.stage", "auto")
        self.assertEqual(config.load(tree).stage, 3)
        self.assertEqual(config.load(tree, auto={"zero_optimization.stage": 2}).stage, 2)

    def test_auto_where_it_makes_no_sense(self):
        self.refuses(MINIMAL | {"steps_per_print": "auto"}, "steps_per_print", '"auto"')

    def test_the_callers_values_are_for_auto_alone(self):
        settings = config.load(
            MINIMAL | {"gradient_clipping": 0.5}, auto={"gradient_clipping": 2.0}
        )
        self.assertEqual(settings.clipping, 0.5)
        self.refuses(MINIMAL, "gradient_cliping", "gradient_clipping", auto={"gradient_cliping": 1})


class PrecisionAndOptimizerTest(ConfigCase):
    def test_one_precision(self):
        for a, b in (("bf16", "fp16"), ("bf16", "torch_autocast"), ("fp16", "torch_autocast")):
            tree = put(put(MINIMAL, f"{a}.enabled", True), f"{b}.enabled", True)
            self.refuses(tree, f"{b}.enabled", f"{a}.enabled")

    def test_names_of_dtypes(self):
        for name in ("bfloat16", "torch.bfloat16", "BF16"):
            tree = put(put(MINIMAL, "torch_autocast.enabled", True), "torch_autocast.dtype", name)
            self.assertEqual(config.load(tree).autocast, "bf16")
        self.refuses(put(MINIMAL, "torch_autocast.dtype", "fp32"), "torch_autocast.dtype")

    def test_loss_scale_of_old_configs(self):
        tree = MINIMAL | {"fp16": {"enabled": True, "initial_scale_power": 32}}
        settings = config.load(tree)
        self.assertEqual(settings.loss_scale.initial_power, 24)
        self.assertTrue(noted(settings, "fp16.initial_scale_power"))

    def test_adam_and_its_modes(self):
        def optimizer(kind, **params):
            made = config.load(MINIMAL | {"optimizer": {"type": kind, "params": params}}).optimizer
            return made.type, made.params["weight_decay"]

        self.assertEqual(optimizer("Adam"), ("adamw", 0.0))
        self.assertEqual(optimizer("Adam", adam_w_mode=False), ("adam", 0.0))
        self.assertEqual(optimizer("AdamW", adam_w_mode=False), ("adamw", 0.0))
        self.assertEqual(optimizer("AdamW", torch_adam=True), ("adamw", 0.01))
        self.assertEqual(optimizer("AdamW", torch_adam=True, weight_decay=0.0), ("adamw", 0.0))

    def test_parameters_and_defaults_of_each_optimizer(self):
        expected = {
            "Adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
            | {"bias_correction": True},
            "Lion": {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.0},
            "SGD": {"lr": 1e-3, "weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0}
            | {"nesterov": False},
            "Lamb": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
            | {"bias_correction": True, "max_coeff": 10.0, "min_coeff": 0.01},
        }
        for kind, params in expected.items():
            settings = config.load(put(MINIMAL, "optimizer.type", kind))
            self.assertEqual(settings.optimizer.params, params)

    def test_bounds_that_cross(self):
        tree = put(MINIMAL, "optimizer.type", "Lamb")
        tree = put(tree, "optimizer.params.min_coeff", 20)
        self.refuses(tree, "optimizer.params.min_coeff", "max_coeff")
        tree = MINIMAL | {"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1}}}
        self.refuses(tree, "scheduler.params.cycle_max_lr", "OneCycle needs it")
        tree = put(tree, "scheduler.params.cycle_max_lr", 0.5)
        self.refuses(tree, "scheduler.params.cycle_min_lr", "cycle_max_lr")

    def test_clipping_unset_is_off_and_said(self):
        settings = config.load(MINIMAL)
        self.assertIsNone(settings.clipping)
        self.assertTrue(noted(settings, "gradient_clipping", "DeepSpeed would clip at 1.0"))
        self.assertIsNone(config.load(MINIMAL | {"gradient_clipping": 0.0}).clipping)
        self.assertFalse(
            noted(config.load(MINIMAL | {"gradient_clipping": 1.0}), "gradient_clipping")
        )


class PageTest(unittest.TestCase):
    def test_the_page_is_what_the_keys_say(self):
        self.assertEqual(
            config_page.PAGE.read_text(), config_page.fresh_page(), "run tools/config_page.py"
        )

    def test_its_example_is_a_config(self):
        text = config_page.PAGE.read_text().partition("```json\n")[2].partition("```")[0]
        self.assertEqual(config.load(text, 16).recipe, "zero++")


if __name__ == "__main__":
    unittest.main()
