"""What stands under each name of DeepSpeed that transformers, accelerate and PEFT import."""

import logging

import torch
import torch.distributed as dist

from thinwire.config.keys_training import SCHEDULERS
from thinwire.hf import comm, zero
from thinwire.hf.engine import DeepSpeedEngine, initialize
from thinwire.native import _native


def modules(version):
    """{name of a module: its names}."""
    groups = vars(_Groups()) | _refusals(
        "sequence parallelism",
        "_get_sequence_parallel_group",
        "_get_sequence_parallel_world_size",
        "_get_sequence_parallel_rank",
    )
    zero_names = {
        "Init": zero.Init,
        "GatheredParameters": zero.GatheredParameters,
        "register_external_parameter": zero.register_external_parameter,
    }
    sequence = _refusals(
        "sequence parallelism", "UlyssesSPAttentionHF", "UlyssesSPDataLoaderAdapter"
    )
    return {
        "deepspeed": {
            "__version__": version,
            "initialize": initialize,
            "DeepSpeedEngine": DeepSpeedEngine,
            "init_distributed": comm.init_distributed,
        }
        | _refusals("tensor parallelism", "tp_model_init")
        | _refusals("DeepSpeed's inference engine", "init_inference"),
        "deepspeed.accelerator": {"get_accelerator": _Accelerator},
        "deepspeed.checkpoint": {},
        "deepspeed.checkpoint.utils": {"clone_tensors_for_torch_save": _clones},
        "deepspeed.comm": comm.NAMES,
        "deepspeed.launcher": {},
        "deepspeed.launcher.runner": {"DEEPSPEED_ENVIRONMENT_NAME": ".deepspeed_env"},
        "deepspeed.ops": {},
        "deepspeed.ops.adagrad": {"DeepSpeedCPUAdagrad": _cpu_adagrad},
        "deepspeed.ops.adam": {"DeepSpeedCPUAdam": _cpu_adam},
        "deepspeed.ops.lion": _refusals(
            "Lion outside of the config's optimizer", "DeepSpeedCPULion"
        ),
        "deepspeed.runtime": {},
        "deepspeed.runtime.engine": {"DeepSpeedEngine": DeepSpeedEngine},
        "deepspeed.runtime.lr_schedules": {"VALID_LR_SCHEDULES": list(SCHEDULERS)},
        "deepspeed.runtime.sequence_parallel": {},
        "deepspeed.runtime.sequence_parallel.ulysses_sp": sequence,
        "deepspeed.runtime.utils": {"move_to_device": _move_to_device},
        "deepspeed.runtime.zero": zero_names,
        # transformers takes the two away and puts them back around zero.Init, which calls neither.
        "deepspeed.runtime.zero.partition_parameters": zero_names
        | {
            "zero_wrapper_for_fp_tensor_constructor": _unchanged,
            "_orig_torch_arange": torch.arange,
            "get_accelerator": _Accelerator,
        },
        "deepspeed.utils": {
            "logger": logging.getLogger("thinwire"),
            "is_initialized": comm.is_initialized,
            "set_z3_leaf_modules": zero.set_z3_leaf_modules,
        },
        "deepspeed.utils.groups": groups,
        "deepspeed.zero": zero_names,
    }


def _refusals(what, *names):
    """Classes that say by name what is not offered as soon as they are used."""

    def refuse(name):
        def refused(*_args, **_kwargs):
            raise _native.UsageError(f"{name}: {what} is not offered by thinwire")

        refused.__name__ = name
        return refused

    return {name: refuse(name) for name in names}


class _Accelerator:
    """The device that thinwire computes on."""

    @staticmethod
    def device_name(device_index=None):
        return "cpu"

    @staticmethod
    def current_device_name():
        return "cpu"


class _Groups:
    """Data parallelism is all that there is: every rank is in its group."""

    def __init__(self):
        self._get_data_parallel_group = lambda: dist.group.WORLD
        self._get_data_parallel_rank = comm.get_rank
        self._get_data_parallel_world_size = comm.get_world_size


def _clones(item, device="cpu"):
    """The same containers with tensors that hold their own elements alone."""
    return _mapped(item, lambda tensor: tensor.detach().clone().to(device))


def _move_to_device(item, device, criterion_func=None):
    return _mapped(
        item,
        lambda tensor: (
            tensor if criterion_func and not criterion_func(tensor) else tensor.to(device)
        ),
    )


def _mapped(item, function):
    if isinstance(item, torch.Tensor):
        return function(item)
    if isinstance(item, dict):
        return type(item)((key, _mapped(value, function)) for key, value in item.items())
    if isinstance(item, (list, tuple)):
        return type(item)(_mapped(value, function) for value in item)
    return item


def _unchanged(function, *_args, **_kwargs):
    return function


def _cpu_adam(
    model_params,
    lr=1e-3,
    bias_correction=True,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    adamw_mode=True,
    fp32_optimizer_states=True,
):
    """torch's, which the engine runs on shards with its own kernels."""
    if not (bias_correction and fp32_optimizer_states) or amsgrad:
        raise _native.UsageError(
            "DeepSpeedCPUAdam: expected bias_correction and fp32_optimizer_states and no amsgrad"
        )
    kind = torch.optim.AdamW if adamw_mode else torch.optim.Adam
    return kind(model_params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


def _cpu_adagrad(model_params, lr=1e-2, eps=1e-10, weight_decay=0.0, amsgrad=False):
    if amsgrad:
        raise _native.UsageError("DeepSpeedCPUAdagrad: expected no amsgrad")
    return torch.optim.Adagrad(model_params, lr=lr, eps=eps, weight_decay=weight_decay)
