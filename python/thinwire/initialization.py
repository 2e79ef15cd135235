"""What a script calls: from a model and a config to an engine, and parameters as a whole."""

import contextlib
import datetime

from thinwire import full
from thinwire.engine import Engine, engine_of
from thinwire.native import _native


def initialize(model, config, units=()):
    """Takes `model` over and returns (engine, optimizer, loader, scheduler).

    From here on the parameters have values only while the module that they belong to computes.
    `units` names the modules (dotted names, class names or classes) that are gathered as a whole,
    in place of those that thinwire would choose.
    """
    options, defaults, topology = _translate(config)
    engine = Engine(model, options, units=units, topology=topology, optimizer_defaults=defaults)
    return engine, engine.optimizer, None, None


def _translate(config):
    options = _native.EngineOptions()
    bf16 = config.get("bf16", {}).get("enabled", False)
    fp16 = config.get("fp16", {}).get("enabled", False)
    options.compute = "bf16" if bf16 else "fp16" if fp16 else "fp32"
    options.wire = options.compute
    options.micro_batches = config.get("gradient_accumulation_steps", 1)
    options.max_grad_norm = config.get("gradient_clipping", 0.0)
    options.recipe = config.get("thinwire", {}).get("recipe", "zero3")
    options.deadline = datetime.timedelta(seconds=config.get("thinwire", {}).get("deadline_s", 60))
    parameters = config.get("optimizer", {}).get("params", {})
    defaults = {
        "lr": parameters.get("lr", 1e-3),
        "betas": tuple(parameters.get("betas", (0.9, 0.999))),
        "eps": parameters.get("eps", 1e-8),
        "weight_decay": parameters.get("weight_decay", 0.01),
    }
    options.betas = defaults["betas"]
    options.eps = defaults["eps"]
    options.weight_decay = defaults["weight_decay"]
    topology = config.get("thinwire", {}).get("topology", {})
    return options, defaults, (topology.get("hosts", 0), topology.get("ranks_per_host", 0))


@contextlib.contextmanager
def full_params(what, modifier_rank=None):
    """Inside, the parameters of `what` (a parameter, a module or a sequence of them) have all of
    their values, on every rank; what was edited there is what all ranks train on from then on.

    All ranks enter it together and make the same edits, or `modifier_rank` names the one whose
    edits count. Parameters that thinwire does not hold are left as they are.
    """
    by_engine = {}
    for parameter in full.parameters_in(what):
        engine = engine_of(parameter)
        if engine is not None:
            by_engine.setdefault(engine, []).append(parameter)
    with contextlib.ExitStack() as stack:
        for engine, parameters in by_engine.items():
            stack.enter_context(full.lent(engine.shards, parameters, modifier_rank))
        yield
