"""Hugging Face's Trainer, Accelerate and PEFT on thinwire, through the door that they have for
DeepSpeed.

import thinwire.hf
thinwire.hf.install()  # before transformers and accelerate are imported
thinwire.hf.use_cpu()  # where the ranks have no GPU
"""

from thinwire.hf.installation import install, use_cpu

__all__ = ["install", "use_cpu"]
