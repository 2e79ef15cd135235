"""deepspeed.comm: torch.distributed under the names that accelerate and transformers use."""

import os

import torch.distributed as dist

from thinwire.native import _native


def is_initialized():
    return dist.is_available() and dist.is_initialized()


def init_distributed(
    dist_backend=None,
    auto_mpi_discovery=True,
    distributed_port=29500,
    verbose=True,
    timeout=None,
    init_method=None,
    dist_init_required=None,
    config=None,
    rank=-1,
    world_size=-1,
):
    """The group of all ranks, from torchrun's variables; the one that is there if there is one."""
    if is_initialized() or dist_init_required is False:
        return
    if dist_backend is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise _native.UsageError(
            "accelerate found no GPU and names no backend: call thinwire.hf.use_cpu() first, and "
            'give TrainingArguments accelerator_config={"use_configured_state": True}'
        )
    os.environ.setdefault("MASTER_PORT", str(distributed_port))
    more = {} if timeout is None else {"timeout": timeout}
    dist.init_process_group(
        dist_backend, init_method=init_method, rank=rank, world_size=world_size, **more
    )


def get_rank(group=None):
    return dist.get_rank(group) if is_initialized() else 0


def get_world_size(group=None):
    return dist.get_world_size(group) if is_initialized() else 1


def get_local_rank():
    return int(os.environ.get("LOCAL_RANK", "0"))


_TORCHS = (
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "irecv",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter_tensor",
    "scatter",
    "send",
)

NAMES = {name: getattr(dist, name) for name in _TORCHS} | {
    function.__name__: function
    for function in (is_initialized, init_distributed, get_rank, get_world_size, get_local_rank)
}
