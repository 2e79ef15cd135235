"""The engine's optimizer as torch sees one, so that schedulers and loops written for torch work."""

import torch


class ShardedOptimizer(torch.optim.Optimizer):
    """Its parameter groups hold what the user may change between steps; state and arithmetic are
    the engine's, on the shards that each rank owns."""

    def __init__(self, engine, parameters, defaults):
        super().__init__(list(parameters), {"lr": 1e-3, **defaults})
        self._step = engine.step

    def step(self, closure=None):
        if closure is not None:
            raise ValueError("step(closure): expected none, since a step follows engine.backward")
        self._step()

    def zero_grad(self, set_to_none=True):
        """Nothing: gradients are gone as soon as they are reduced."""
