#!/usr/bin/env python3
"""What the libraries find under the name deepspeed, in a process of its own per case."""

import subprocess
import sys
import unittest

import hf_packages

INSTALL = "import thinwire.hf; thinwire.hf.install(); "


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@hf_packages.needed
class InstallTest(unittest.TestCase):
    def test_the_libraries_find_it(self):
        said = run(
            INSTALL + "import torch; before = dict(vars(torch.Tensor));"
            "from transformers.integrations import is_deepspeed_available as one;"
            "from accelerate.utils import is_deepspeed_available as two, compare_versions;"
            "import accelerate, deepspeed, importlib.metadata as m;"
            "assert before == dict(vars(torch.Tensor));"
            "print(one(), two(), compare_versions('deepspeed', '>=', '0.19.6'),"
            " m.version('deepspeed') == deepspeed.__version__)"
        )
        self.assertEqual(said, "True True True True")

    def test_too_late_is_an_error(self):
        said = run("import accelerate.accelerator; " + INSTALL)
        self.assertIn("accelerate.accelerator was imported already", said)

    def test_what_is_not_offered_is_named(self):
        said = run(INSTALL + "import deepspeed; deepspeed.tp_model_init()")
        self.assertIn("tp_model_init: tensor parallelism is not offered by thinwire", said)
        self.assertIn("thinwire", run(INSTALL + "import deepspeed; deepspeed.PipelineModule"))

    def test_every_name_is_there(self):
        said = run(
            INSTALL + "from deepspeed import DeepSpeedEngine, comm, initialize, zero;"
            "from deepspeed.runtime.zero import partition_parameters as pp;"
            "from deepspeed.utils import groups, logger, is_initialized, set_z3_leaf_modules;"
            "from deepspeed.ops.adam import DeepSpeedCPUAdam;"
            "from deepspeed.ops.lion import DeepSpeedCPULion;"
            "from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad;"
            "from deepspeed.checkpoint.utils import clone_tensors_for_torch_save;"
            "from deepspeed.launcher.runner import DEEPSPEED_ENVIRONMENT_NAME;"
            "from deepspeed.runtime.utils import move_to_device;"
            "from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF;"
            "from deepspeed.accelerator import get_accelerator;"
            "import deepspeed;"
            "print(deepspeed.runtime.lr_schedules.VALID_LR_SCHEDULES[0],"
            " deepspeed.runtime.engine.DeepSpeedEngine is DeepSpeedEngine,"
            " get_accelerator().current_device_name(), comm.get_world_size())"
        )
        self.assertEqual(said, "LRRangeTest True cpu 1")


if __name__ == "__main__":
    unittest.main()
