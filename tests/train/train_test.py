#!/usr/bin/env python3
"""thinwire-train as a user runs it: several processes on this machine, real text, real failures.

usage: train_test.py THINWIRE_TRAIN [unittest arguments]
"""

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import unittest
from pathlib import Path

TRAIN = ""  # the program, from the command line
DEADLINE_S = 3.0

CONFIG = {
    "model": {"hidden": 32, "layers": 2, "heads": 4, "kv_heads": 2},
    "data": {"files": [sysconfig.get_paths()["stdlib"] + "/[a-c]*.py"], "sequence_length": 32},
    "training": {
        "steps": 8,
        "micro_batch": 2,
        "warmup_steps": 2,
        "evaluate_every": 4,
        "evaluation_batches": 2,
        "learning_rate": 0.01,
    },
    "parallel": {"deadline_s": DEADLINE_S},
}


class TrainCase(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="thinwire-train-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.config = self.root / "config.json"
        self.config.write_text(json.dumps(CONFIG))

    def start(self, name, *arguments, **settings):
        """The running program; its output lies in self.root / name."""
        argv = [TRAIN, "train", str(self.config), *arguments]
        for key, value in {"output.directory": self.root / name, **settings}.items():
            argv += ["--set", f"{key}={value}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            # A shell that runs this in the background has it ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def end(self, process, code=0, timeout=60):
        out, err = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, code, f"{out}\n{err}")
        return out, err

    def train(self, name, *arguments, **settings):
        """Trains to the end; returns the lines of metrics.jsonl."""
        self.end(self.start(name, *arguments, **settings))
        return self.metrics(name)

    def metrics(self, name):
        text = (self.root / name / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def losses(self, metrics):
        return [line["loss"] for line in metrics if "loss" in line]

    def wait_for_step(self, name, step):
        path = self.root / name / "metrics.jsonl"
        for _ in range(600):
            if path.exists() and path.read_text().count('"loss"') >= step:
                return
            time.sleep(0.05)
        self.fail(f"step {step} did not come")

    def error_of(self, process, code, timeout=60):
        """The one line of a run that fails, without its prefix."""
        _, err = self.end(process, code, timeout)
        lines = err.splitlines()
        self.assertEqual(len(lines), 1, err)
        return lines[0]


class TrainingTest(TrainCase):
    def test_alone_and_in_company_it_learns(self):
        alone = self.train("alone", **{"training.micro_batches": 4})
        self.assertEqual(len(self.losses(alone)), 8)
        self.assertLess(self.losses(alone)[-1], self.losses(alone)[0] - 0.5)
        # The same samples in a step, cut otherwise; bf16 sums differ in their order.
        company = self.train("company", "--ranks", "4")
        for a, b in zip(self.losses(alone), self.losses(company), strict=True):
            self.assertAlmostEqual(a, b, delta=0.02)

    def test_recipes_and_topologies_give_the_same_bits(self):
        fp32 = {"training.compute": "fp32", "training.activation_checkpointing": "true"}
        two_by_one = {"parallel.hosts": 2, "parallel.ranks_per_host": 1, **fp32}
        pulled = self.train("pulled", "--ranks", "2", **two_by_one)
        kept = self.train("kept", "--ranks", "2", **two_by_one, **{"parallel.recipe": "hpz"})
        self.assertEqual(self.losses(pulled), self.losses(kept))

    def test_shared_memory_changes_no_bit(self):
        two_by_two = {
            "parallel.hosts": 2,
            "parallel.ranks_per_host": 2,
            "parallel.recipe": "zero++",
            "parallel.chunk_bytes": 4096,
            "training.micro_batches": 2,
        }
        lines = {"true": "shared memory", "false": "network (no shared memory: switched off)"}
        for shared, line in lines.items():
            process = self.start(
                shared, "--ranks", "4", **two_by_two, **{"parallel.shared_memory": shared}
            )
            out, _ = self.end(process)
            self.assertIn(f"fast link     {line}\n", out)
            self.assertEqual("rings of shared memory" in out, shared == "true")
        self.assertEqual(self.losses(self.metrics("true")), self.losses(self.metrics("false")))
        shards = sorted((self.root / "true" / "step-8").glob("*.safetensors"))
        self.assertEqual(len(shards), 4)
        for shard in shards:
            other = self.root / "false" / "step-8" / shard.name
            self.assertTrue(filecmp.cmp(shard, other, shallow=False), shard.name)

    def test_a_timeline_is_written_and_summed_up(self):
        trace = self.root / "trace.json"
        arguments = ["--ranks", "2", "--trace", str(trace), "--trace-steps", "3..4"]
        out, _ = self.end(self.start("traced", *arguments))
        self.assertIn("where the time went", out)
        events = json.loads(trace.read_text())["traceEvents"]
        steps = [(event["pid"], event["name"]) for event in events if event.get("cat") == "step"]
        self.assertEqual(sorted(steps), [(r, f"step {s}") for r in (0, 1) for s in (3, 4)])

    def test_auto_chooses_reviews_and_trains_the_same(self):
        # Without a loss budget what may be chosen is exact, whatever the probes say.
        settings = {"parallel.hosts": 2, "parallel.ranks_per_host": 1, "training.compute": "fp32"}
        plain = self.train("plain", "--ranks", "2", **settings, **{"training.steps": 18})
        settings |= {"parallel.recipe": "auto", "parallel.loss_budget": 0}
        settings |= {"training.steps": 18, "parallel.review_steps": 3}
        out, _ = self.end(self.start("auto", "--ranks", "2", **settings))
        self.assertEqual(self.losses(plain), self.losses(self.metrics("auto")))
        self.assertIn("recipe auto: slow link of a host", out)
        self.assertEqual(out.count("s per step measured"), 2, out)  # after 13 and 16 steps
        plan = json.loads((self.root / "auto" / "planner.json").read_text())
        self.assertEqual(plan["compute_origin"], "measured")
        self.assertIn(plan["recipe"], ("zero3", "hpz"))
        summary = json.loads((self.root / "auto" / "summary.json").read_text())
        self.assertEqual(summary["recipe"], plan["recipe"])

    def test_the_summary_agrees_with_the_plan(self):
        for recipe in ("zero3", "hpz"):
            settings = {"parallel.hosts": 2, "parallel.ranks_per_host": 2}
            self.train(recipe, "--ranks", "4", **settings, **{"parallel.recipe": recipe})
            summary = json.loads((self.root / recipe / "summary.json").read_text())
            self.assertEqual(summary["step"], 8)
            self.assertLess(
                abs(summary["slow_bytes_per_param"] / summary["predicted_bytes_per_param"] - 1),
                0.01,
            )
            self.assertEqual(len(summary["peak_memory_bytes_of_rank"]), 4)

    def test_a_tied_head_trains(self):
        losses = self.losses(self.train("tied", "--ranks", "2", **{"model.tie_head": "true"}))
        self.assertLess(losses[-1], losses[0] - 0.5)


class ResumeTest(TrainCase):
    def test_a_resumed_run_continues_bit_for_bit(self):
        whole = self.train("whole", "--ranks", "2", **{"output.save_every": 4})
        shutil.copytree(self.root / "whole" / "step-4", self.root / "resumed" / "step-4")
        resumed = self.train("resumed", "--ranks", "2", "--resume")
        self.assertEqual(self.losses(whole)[4:], self.losses(resumed))
        for rank in range(2):
            file = f"step-8/rank-{rank:05}.safetensors"
            self.assertTrue(
                filecmp.cmp(self.root / "whole" / file, self.root / "resumed" / file, False), file
            )

    def test_a_stop_signal_saves_at_a_step_of_all(self):
        run = self.start("run", "--ranks", "2", **{"training.steps": 100000})
        self.wait_for_step("run", 3)
        run.send_signal(signal.SIGTERM)
        out, _ = self.end(run)
        self.assertIn("stopped on request", out)
        steps = len(self.losses(self.metrics("run")))
        self.assertTrue((self.root / "run" / f"step-{steps}" / "manifest.json").exists())
        more = self.train("run", "--resume", **{"training.steps": steps + 2})  # and one rank
        self.assertEqual(len(self.losses(more)), steps + 2)

    def test_a_run_into_a_used_directory_and_a_finished_one_change_nothing(self):
        self.train("run", "--ranks", "2")
        before = {path: path.read_bytes() for path in (self.root / "run").rglob("*.json*")}
        line = self.error_of(self.start("run"), 2)
        self.assertIn("holds checkpoints up to step 8 of another run", line)
        out, _ = self.end(self.start("run", "--ranks", "2", "--resume"))
        self.assertIn("nothing to do: the checkpoint is of step 8", out)
        for path, content in before.items():
            self.assertEqual(path.read_bytes(), content, path)

    def test_a_diverged_run_ends_with_an_error(self):
        wild = {"training.learning_rate": 10, "training.max_grad_norm": 0, "training.steps": 400}
        process = self.start("run", **wild, **{"training.weight_decay": 10})
        _, err = self.end(process, 2)
        self.assertIn("25 steps in a row held inf or NaN", err)

    def test_a_checkpoint_is_a_model_for_the_inference_engine(self):
        thinwire = Path(TRAIN).with_name("thinwire")
        if not thinwire.exists():
            self.skipTest("the command `thinwire` is not built")
        for tied in ("false", "true"):
            with self.subTest(tied=tied):
                run, file = self.root / f"run-{tied}", self.root / "x.gguf"
                self.train(run.name, **{"model.tie_head": tied})
                argv = [TRAIN, "generate", str(run), "--prompt", "import ", "--tokens", "20"]
                expected = subprocess.check_output([*argv, "--temperature", "0"], text=True)
                subprocess.run([thinwire, "convert", run, "-o", file], check=True)
                argv = [thinwire, "run", file, "--raw", "-q", "-p", "import ", "-n", "20"]
                found = subprocess.check_output([*argv, "--temperature", "0"], text=True)
                self.assertEqual("import " + found.rstrip("\n"), expected.rstrip("\n"))

    def test_generate_continues_a_prompt(self):
        self.train("run")
        argv = [TRAIN, "generate", str(self.root / "run"), "--prompt", "def ", "--tokens", "80"]
        texts = [subprocess.run(argv, capture_output=True, check=True).stdout for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        self.assertTrue(texts[0].startswith(b"def "))
        other = subprocess.run([*argv, "--seed", "2"], capture_output=True, check=True).stdout
        self.assertNotEqual(texts[0], other)


class FailureTest(TrainCase):
    def ranks_of(self, launcher):
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def test_a_killed_rank_ends_the_run_by_name(self):
        run = self.start("run", "--ranks", "3", **{"training.steps": 100000})
        self.wait_for_step("run", 2)
        os.kill(self.ranks_of(run)[1], signal.SIGKILL)
        _, err = self.end(run, 128 + signal.SIGKILL, timeout=6 * DEADLINE_S)
        self.assertIn("rank 1", err)
        self.assertNotIn("Exception raised from", err)

    def test_a_stopped_rank_ends_the_run_within_the_deadline(self):
        run = self.start("run", "--ranks", "2", **{"training.steps": 100000})
        self.wait_for_step("run", 2)
        os.kill(self.ranks_of(run)[1], signal.SIGSTOP)
        began = time.monotonic()
        _, err = self.end(run, 1, timeout=6 * DEADLINE_S)
        self.assertLess(time.monotonic() - began, 5 * DEADLINE_S)
        self.assertIn("rank 1", err)

    def start_by_variables(self, ranks=(0, 1), arguments=(), **settings_of_rank):
        """Two ranks as another launcher starts them; each setting is a pair of values."""
        self.port = 20000 + os.getpid() % 20000
        runs = []
        for rank in ranks:
            variables = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2}
            variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port}
            os.environ.update({key: str(value) for key, value in variables.items()})
            settings = {key: values[rank] for key, values in settings_of_rank.items()}
            runs.append(self.start("run", *arguments, **settings))
            for key in variables:
                del os.environ[key]
        return runs

    def listening_addresses(self, port):
        """Of all sockets that listen on the port, as /proc/net shows them."""
        tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
        sockets = [line.split() for table in tables for line in table.splitlines()]
        local = [socket[1].split(":") for socket in sockets if socket[3] == "0A"]
        return [address for address, number in local if int(number, 16) == port]

    def test_a_rank_that_waits_for_its_peers_listens_on_loopback_and_can_be_interrupted(self):
        (waiting,) = self.start_by_variables((0,), **{"parallel.deadline_s": [60]})
        began = time.monotonic()
        while not (addresses := self.listening_addresses(self.port)):
            self.assertLess(time.monotonic() - began, 20)
            time.sleep(0.02)
        self.assertEqual(addresses, ["0100007F"])
        began = time.monotonic()
        waiting.send_signal(signal.SIGINT)
        self.end(waiting, -signal.SIGINT)
        self.assertLess(time.monotonic() - began, 5)

    def test_a_setting_that_does_nothing_is_said(self):
        (run,) = self.start_by_variables((0,), ["--ranks", "1"])
        self.assertIn("--ranks starts the ranks itself, but RANK is set", self.error_of(run, 2))
        steps = {"training.steps": 1, "training.warmup_steps": 0}
        out, _ = self.end(self.start("alone", **steps, **{"parallel.interface": "eth7"}))
        self.assertIn("parallel.interface = eth7 is not used: one rank sends nothing", out)

    def test_ranks_with_other_configs_are_told_the_key(self):
        for run in self.start_by_variables(**{"parallel.recipe": ("zero3", "zero++")}):
            error = self.error_of(run, 1)
            for rank, codec in enumerate(("bf16", "int8/128")):
                words = f"rank {rank} wants parallel.recipe with slow_gather={codec}"
                self.assertIn(words, error)

    def test_a_bad_config_of_one_rank_names_the_rank(self):
        (bad,) = self.start_by_variables((1,), **{"parallel.recipe": ("zero3", "zero+")})
        error = self.error_of(bad, 2)
        self.assertTrue(error.startswith("thinwire: rank 1: "), error)
        self.assertIn('parallel.recipe = "zero+" is not known; did you mean zero++?', error)

    def test_bad_settings_are_one_line(self):
        cases = {
            "model.heads=3": "model.heads = 3 does not divide model.hidden = 32",
            "training.stepz=3": "did you mean training.steps?",
            "data.files=/nonexistent": "/nonexistent does not exist",
            "data.sequence_length=1000000": "needs 1000001",
            "parallel.hosts=3": "parallel.hosts",
            "parallel.recipe=zero+": "did you mean zero++?",
            "parallel.recipe=slow_gather=int4/100": "the block is 100: choose a multiple of 32",
        }
        for setting, message in cases.items():
            key, value = setting.split("=", 1)
            with self.subTest(setting):
                error = self.error_of(self.start("run", "--ranks", "2", **{key: value}), 2)
                self.assertTrue(error.startswith("thinwire: "), error)
                self.assertIn(message, error)


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
