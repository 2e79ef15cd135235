"""A torch optimizer that runs on this rank's stretches of the parameters."""

import copy
import inspect

import torch
from torch import nn

from thinwire.native import _native


class OnShards:
    """Runs the class of `given` with the settings of its groups. What it keeps per element lies in
    the engine's memory, and so in its checkpoints; what it keeps per parameter (a count of steps)
    is the same for all of a group and kept once more by a parameter that belongs to no model."""

    def __init__(self, given):
        self._kind = type(given)
        self._given = given
        self._inner = None
        self._saved = None  # what restore() was given
        self.states = ()
        self.states = self._probe()

    def __call__(self, owned):
        """The engine's: (group, master, gradient, states) of each stretch."""
        if self._inner is None:
            self._begin(owned)
        for mine, theirs in zip(self._inner.param_groups, self._given.param_groups, strict=True):
            mine.update({key: value for key, value in theirs.items() if key != "params"})
        for (_, _, gradient, _), shard in zip(owned, self._shards, strict=True):
            shard.grad = gradient
        self._tick()
        self._keep()

    def scalars(self):
        """What is kept per group of parameters, as JSON can hold it; None before the first step."""
        if self._inner is None:
            return self._saved
        return [
            {name: float(value) for name, value in self._inner.state[clock].items() if _one(value)}
            for clock in self._clocks
        ]

    def restore(self, scalars):
        """After the engine's states were loaded; None: begins anew."""
        self._saved = scalars
        self._inner = None

    def _probe(self):
        """The names of what it keeps per element, in any group."""
        self._begin([])
        self._tick()
        names = [
            name
            for clock in self._clocks
            for name, value in self._inner.state[clock].items()
            if _elementwise(value)
        ]
        self._inner = None
        return list(dict.fromkeys(names))

    def _begin(self, owned):
        self._shards = [nn.Parameter(master) for _, master, _, _ in owned]
        self._clocks = [nn.Parameter(torch.zeros(2)) for _ in self._given.param_groups]
        groups = [
            {**group, "params": [clock]}
            for group, clock in zip(self._given.param_groups, self._clocks, strict=True)
        ]
        for (group, *_), shard in zip(owned, self._shards, strict=True):
            groups[group]["params"].append(shard)
        self._memory = [dict(zip(self.states, states, strict=True)) for *_, states in owned]
        known = inspect.signature(self._kind).parameters
        defaults = {key: value for key, value in self._given.defaults.items() if key in known}
        self._inner = self._kind(groups, **defaults)
        if self._saved:
            self._continue([group for group, *_ in owned])

    def _tick(self):
        """A step of the clocks, and of the shards that have gradients."""
        for clock in self._clocks:
            clock.grad = torch.zeros_like(clock)
        self._inner.step()

    def _continue(self, groups):
        """From the scalars saved and what the engine's memory holds."""
        self._tick()  # so that the clocks have states, which say what each group keeps
        for clock, scalars in zip(self._clocks, self._saved, strict=True):
            state = self._inner.state[clock]
            for name, value in scalars.items():
                is_tensor = isinstance(state.get(name), torch.Tensor)
                state[name] = torch.full_like(state[name], value) if is_tensor else value
        for group, shard, memory in zip(groups, self._shards, self._memory, strict=True):
            self._inner.state[shard] = {
                name: memory[name] if _elementwise(value) else copy.deepcopy(value)
                for name, value in self._inner.state[self._clocks[group]].items()
            }

    def _keep(self):
        """What torch allocated in its first step goes into the engine's memory."""
        for shard, memory in zip(self._shards, self._memory, strict=True):
            state = self._inner.state[shard]
            for name, value in state.items():
                if not _elementwise(value) or value is memory.get(name):
                    continue
                if name not in memory:
                    raise _native.UsageError(
                        f"torch.optim.{self._kind.__name__} began to keep {name} in training: give "
                        "it from the start the setting that asks for it"
                    )
                memory[name].copy_(value)
                state[name] = memory[name]


def _elementwise(value):
    return isinstance(value, torch.Tensor) and value.dim() > 0


def _one(value):
    return isinstance(value, (int, float)) or (isinstance(value, torch.Tensor) and value.dim() == 0)
