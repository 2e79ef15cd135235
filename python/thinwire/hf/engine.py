"""The engine as Accelerate and the Trainer know DeepSpeed's."""

import sys

import torch

from thinwire import full, initialization
from thinwire.engine import Engine
from thinwire.hf import zero
from thinwire.native import _native


def initialize(args=None, model=None, optimizer=None, **more):
    """thinwire.initialize with DeepSpeed's arguments. Returns a DeepSpeedEngine first."""
    engine, optimizer, loader, scheduler = initialization.initialize(
        args=args, model=model, optimizer=optimizer, engine_class=DeepSpeedEngine, **more
    )
    return engine, None if optimizer.name == "none" else optimizer, loader, scheduler


class DeepSpeedEngine(Engine):
    """Its caller may end a step earlier than the config says, as Accelerate does where the data
    ends, and may weight the losses of micro-batches itself."""

    def __init__(self, module, settings, **more):
        super().__init__(module, settings, **more)
        for parameter in module.parameters():
            zero.number(parameter)
            parameter.ds_numel = parameter.numel()
            parameter.ds_shape = parameter.shape

    @property
    def config(self):
        """The config in effect, as a dict."""
        return self.settings.effective()

    def _options(self, settings, module):
        options, notes = super()._options(settings, module)
        options.average_micro_batches = False
        return options, notes

    def _weight(self, scale_wrt_gas):
        return 1 / self.settings.micro_batches if scale_wrt_gas else 1

    def forward(self, *args, **kwargs):
        if torch.is_grad_enabled() and self.settings.micro_batches > 1:
            self._follow_accelerate()
        return super().forward(*args, **kwargs)

    def _follow_accelerate(self):
        """Ranks agree before they compute on whether a step ends, earlier than Accelerate tells its
        engine."""
        accelerate = sys.modules.get("accelerate.state")
        if accelerate is None or not accelerate.is_initialized() or self.session.in_pass:
            return
        self.set_gradient_accumulation_boundary(accelerate.GradientState().sync_gradients)

    def zero_gather_16bit_weights_on_model_save(self):
        """Whether the config wants whole weights when a model is saved."""
        return self.settings.gather_on_save

    def _zero3_consolidated_16bit_state_dict(self, exclude_frozen_parameters=False):
        """The model's state with whole tensors, in the type it computes in, on rank 0; None on the
        others. All ranks call it."""
        state = full.state_dict_of(self.module, self.shards, frozen=not exclude_frozen_parameters)
        return state if self.rank == 0 else None

    _consolidated_16bit_state_dict = _zero3_consolidated_16bit_state_dict

    def compile(self, *_args, **_kwargs):
        raise _native.UsageError("compile: torch.compile of an engine is not offered: leave it out")

    def __getattr__(self, name):
        """What the engine has not is the module's: engine.generate(...)."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)
