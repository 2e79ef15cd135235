"""The hooks around a module's forward, which call the engine once each."""

import torch

from thinwire import tensors
from thinwire.native import _native


class GatherHooks:
    """Gathers the units of module `index` of `session` around its forward. On several modules,
    which wrap one another, around the first that is called."""

    def __init__(self, session, index):
        self._session = session  # no reference to the engine: hooks must not keep it
        self._index = index
        self._entered = []

    def on(self, modules):
        """Handles of the hooks."""
        handles = []
        for module in modules:
            handles += [
                module.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True),
                # Also after an exception, so that the parameters are released.
                module.register_forward_hook(self._after, always_call=True),
            ]
        return handles

    def __reduce_ex__(self, protocol):
        raise _native.UsageError(
            "a module that an engine trains can be neither copied nor pickled: save_checkpoint, "
            "save_16bit_model and state_dict have what it holds"
        )

    def _before(self, module, args, kwargs):
        if self._entered and self._entered[-1] is not module:
            return None
        self._entered.append(module)
        found = tensors.requiring_grad((args, kwargs)) if torch.is_grad_enabled() else []
        seen = self._session.pre_forward(self._index, found)
        return tensors.replaced((args, kwargs), found, seen) if found else None

    def _after(self, module, args, result):
        if not self._entered or self._entered[-1] is not module:
            return None
        self._entered.pop()
        found = tensors.requiring_grad(result) if torch.is_grad_enabled() else []
        seen = self._session.post_forward(self._index, found)
        return tensors.replaced(result, found, seen) if found else None
