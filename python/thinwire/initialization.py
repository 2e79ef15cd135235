"""What a script calls: from a model and a config to an engine, and parameters as a whole."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from thinwire import config as configs
from thinwire import full
from thinwire.engine import Engine, engine_of
from thinwire.native import _native
from thinwire.scheduler import Schedule


def initialize(
    args=None,
    model=None,
    optimizer=None,
    model_parameters=None,
    training_data=None,
    lr_scheduler=None,
    mpu=None,
    dist_init_required=None,
    collate_fn=None,
    config=None,
    config_params=None,
    units=(),
    weights=None,
    engine_class=Engine,
):
    """Takes `model` over and returns (engine, optimizer, loader, scheduler).

    The parameters have values only while the module that they belong to computes; full_params gives
    all of them. Arguments are DeepSpeed's, `config` a dict or the path of a JSON file. `optimizer`
    may be one of torch.optim's that work element by element, or a function that makes one from
    parameters; without it, the config's is taken, on `model_parameters` where they are groups.
    `lr_scheduler` is a scheduler of that optimizer or a function that makes one. `units` names the
    modules (dotted names, class names or classes) that are gathered as a whole, in place of those
    that thinwire would choose. `engine_class` is a subclass of Engine.

    A model made under torch.device("meta") may be larger than the memory of a rank: its values go
    into the ranks' shards a unit at a time. `weights` says where from: a safetensors file, an index
    of several or a directory with either, whose keys must be those of the model; or a function that
    is called with each module, children first, and initializes it; or both, then the function is
    for buffers that files do not hold. Without it, modules initialize themselves by their
    reset_parameters(), to the same values on all ranks. Of a model of transformers, its own
    initialization stands for both: it fills the buffers that no file has, and without `weights` the
    parameters.
    """
    settings = configs.load(_given(args, config, config_params), world_size=_world())
    _refuse(model, mpu)
    groups = list(model_parameters) if model_parameters is not None else None
    engine = engine_class(
        model, settings, optimizer=optimizer, groups=groups, units=units, values=weights
    )
    loader = _loader(training_data, settings, collate_fn) if training_data is not None else None
    scheduler = _scheduler(lr_scheduler, settings, engine.optimizer)
    engine.lr_scheduler = scheduler
    return engine, engine.optimizer, loader, scheduler


def _given(args, config, config_params):
    if config is not None and config_params is not None:
        raise _native.UsageError("initialize: config= and config_params= are the same: pass one")
    given = [each for each in (config, config_params) if each is not None]
    if not given and args is not None:
        path = getattr(args, "deepspeed_config", None) or getattr(args, "thinwire_config", None)
        given = [path] if path else []
    if not given:
        raise _native.UsageError("initialize: expected config=, a dict or the path of a JSON file")
    return given[0]


def _world():
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1"))


def _refuse(model, mpu):
    if not isinstance(model, torch.nn.Module):
        raise _native.UsageError(
            f"initialize: expected model=, a torch.nn.Module, found {type(model).__name__}"
        )
    if mpu is not None:
        raise _native.UsageError("initialize: mpu= (model parallelism) is not offered")
    if isinstance(model, Engine):
        raise _native.UsageError("initialize: expected model=, a module, found an engine of one")
    if not list(model.parameters()):
        raise _native.UsageError(f"initialize: {type(model).__name__} has no parameters")
    for name, parameter in model.named_parameters():
        _refuse_parameter(name, parameter)


def _refuse_parameter(name, parameter):
    if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
        raise _native.UsageError(
            f"initialize: parameter {name} has no shape yet: let the lazy module see a batch first"
        )
    if engine_of(parameter) is not None:
        raise _native.UsageError(
            f"initialize: parameter {name} belongs to an engine: destroy() that one and build the "
            "model anew"
        )
    try:
        parameter.data_ptr()
    except RuntimeError:
        raise _native.UsageError(
            f"initialize: parameter {name} has no values; an engine that has ended had taken it: "
            "build the model anew"
        ) from None


def _loader(data, settings, collate_fn):
    """Batches of this rank; a new order every epoch with loader.sampler.set_epoch(epoch)."""
    if settings.micro_batch is None:
        raise _native.UsageError(
            "training_data= needs train_micro_batch_size_per_gpu in the config"
        )
    sampler = None
    if settings.world_size > 1:
        sampler = DistributedSampler(data, drop_last=settings.drop_last)
    return DataLoader(
        data,
        batch_size=settings.micro_batch,
        shuffle=sampler is None,
        sampler=sampler,
        collate_fn=collate_fn,
        drop_last=settings.drop_last,
    )


def _scheduler(given, settings, optimizer):
    if given is None:
        return Schedule(optimizer, settings.scheduler) if settings.scheduler else None
    made = given(optimizer) if callable(given) and not hasattr(given, "step") else given
    if isinstance(made, type) or not hasattr(made, "step"):
        raise _native.UsageError(
            "initialize: expected lr_scheduler=, a scheduler or a function that makes one from the "
            f"optimizer, found {made!r}"
        )
    if isinstance(made, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise _native.UsageError(
            "initialize: lr_scheduler= is stepped with every step of the engine, and "
            "ReduceLROnPlateau wants a loss: leave it out, make it from the optimizer that is "
            "returned, and step it yourself"
        )
    return made


@contextlib.contextmanager
def full_params(what, modifier_rank=None):
    """Inside, the parameters of `what` (a parameter, a module or a sequence of them) have all of
    their values, on every rank; what was edited there is what all ranks train on from then on.

    All ranks enter it together and make the same edits, or `modifier_rank` names the one whose
    edits count. Parameters that thinwire does not hold are left as they are.
    """
    if modifier_rank is not None and not 0 <= modifier_rank < _world():
        raise _native.UsageError(
            f"full_params: expected modifier_rank= from 0 to {_world() - 1}, found {modifier_rank}"
        )
    by_engine = {}
    for parameter in full.parameters_in(what):
        engine = engine_of(parameter)
        if engine is not None:
            by_engine.setdefault(engine, []).append(parameter)
    with contextlib.ExitStack() as stack:
        for engine, parameters in by_engine.items():
            stack.enter_context(full.lent(engine.shards, parameters, modifier_rank))
        yield
