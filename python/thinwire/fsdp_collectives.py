"""The collectives that take the places of FSDP2's (its AllGather and ReduceScatter)."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from thinwire.fsdp_report import names
from thinwire.two_hop import RAW


class _Collective:
    """What both collectives have: one group of FSDP2, its hops and its formats."""

    def __init__(self, group, hops, formats):
        self._group, self._hops, self._formats = group, hops, formats

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def _refuse(self, what, tensor):
        """Says once what the report could not know: types that changed after compress()."""
        text = f"{what}: {names({tensor.dtype})} arrived, not fp32, bf16 or fp16"
        if text not in self._group.notes:
            self._group.note(text)
            print(f"thinwire.fsdp: {self._group.name}: {text}", flush=True)


class Gather(_Collective, AllGather):
    """FSDP2's all-gather. Its input is the shards of all parameters of a group end to end, in one
    buffer of one dtype: blocks run over them without regard to where a parameter ends.

    It is done when it returns, so there is no work to wait for, with async_op or without.
    """

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        hops = self._hops.of(group)
        if hops is None:
            return dist.all_gather_single(output_tensor, input_tensor, group, async_op)
        form = self._formats.gather
        if form is not None and input_tensor.dtype not in RAW:
            self._refuse("gather raw", input_tensor)
            form = None
        self._group.sent += hops.gather(output_tensor, input_tensor, form)
        return None


class Reduce(_Collective, ReduceScatter):
    """FSDP2's reduce-scatter. `op` says how FSDP2 divides: AVG is the mean, PREMUL_SUM a factor
    (set_gradient_divide_factor), SUM leaves it to FSDP2. Sums and factors are fp32, rounded once to
    the output's dtype.
    """

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        hops, raw = self._hops.of(group), RAW.get(input_tensor.dtype)
        if hops is None or raw is None:
            if hops is not None and not any("reduce by" in note for note in self._group.notes):
                self._refuse("reduce by FSDP2", input_tensor)
            return dist.reduce_scatter_single(output_tensor, input_tensor, op, group, async_op)
        fast, slow = self._formats.fast_reduce or raw, self._formats.slow_reduce or raw
        total, sent = hops.reduce(input_tensor, fast, slow)
        self._group.sent += sent
        if op == dist.ReduceOp.AVG:
            total.div_(hops.world)
        elif op == dist.ReduceOp.PREMUL_SUM:
            total.mul_(op.factor)
        elif op != dist.ReduceOp.SUM:
            raise ValueError(f"{self._group.name}: a reduce by {op} is neither a sum nor a mean")
        output_tensor.copy_(total)
        return None
