"""The optimizer, of the config or the caller, run by the engine on each rank's shards."""

from torch import optim

from thinwire.native import _native
from thinwire.on_shards import OnShards

# Updates each element from its own gradient and history, so that it can run on any stretch of it.
ELEMENTWISE = (
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.NAdam,
    optim.RAdam,
    optim.Adamax,
    optim.Adagrad,
    optim.Adadelta,
    optim.RMSprop,
    optim.Rprop,
    optim.ASGD,
)
_NATIVE = {optim.SGD: "sgd", optim.Adam: "adam", optim.AdamW: "adamw"}
# The native one has neither; torch's own runs on the shards then.
_ONLY_TORCH = ("amsgrad", "maximize", "differentiable")


class ShardedOptimizer(optim.Optimizer):
    """Its parameter groups hold what may change between steps, so that schedulers and loops written
    for torch work; state and arithmetic are the engine's, on the shards that each rank owns."""

    _engine_step = None

    def __init__(self, name, groups, defaults):
        super().__init__(groups, defaults)
        self.name = name  # the engine's, or of the torch class that runs on the shards
        self.overflow = False  # whether the last step was skipped for gradients of inf or NaN
        self.on_shards = None  # the OnShards where a torch class does the arithmetic

    def attach(self, step):
        self._engine_step = step

    def add_param_group(self, param_group):
        if self._engine_step is not None:
            raise _native.UsageError(
                "add_param_group: expected all groups at initialize(), which shards their state"
            )
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict):
        """Groups only, as state_dict() has them: state is in checkpoints."""
        if state_dict.get("state"):
            raise _native.UsageError(
                "load_state_dict: the state of a sharded optimizer comes with load_checkpoint"
            )
        super().load_state_dict(state_dict)

    def group_of_parameters(self):
        """{id of a parameter: the index of its group}."""
        return {
            id(parameter): index
            for index, group in enumerate(self.param_groups)
            for parameter in group["params"]
        }

    def settings(self):
        return [_settings(group) for group in self.param_groups]

    def step(self, closure=None):
        if closure is not None:
            raise _native.UsageError("step(closure): a step follows engine.backward; pass nothing")
        self._engine_step()

    def zero_grad(self, set_to_none=True):
        """Nothing: gradients are gone as soon as they are reduced."""


def choose(settings, given, model, groups, options):
    """The ShardedOptimizer for a config (`settings`) or for the torch optimizer `given`, which is
    entered into `options`."""
    if callable(given) and not isinstance(given, optim.Optimizer):
        given = given(groups)
    if given is not None:
        sharded = _of_torch(given, options)
    else:
        sharded = _of_config(settings.optimizer, groups, options)
    known = sharded.group_of_parameters()
    _refuse_strangers(known, sharded, model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in known:
            raise _native.UsageError(
                f"the optimizer does not have {name}, which requires grad: set requires_grad to "
                "False for what is not trained"
            )
    options.groups = sharded.settings()
    return sharded


def _refuse_strangers(known, sharded, model):
    strangers = known.keys() - {id(parameter) for parameter in model.parameters()}
    for index, group in enumerate(sharded.param_groups):
        for parameter in group["params"]:
            if id(parameter) in strangers:
                raise _native.UsageError(
                    f"group {index} of the optimizer has a parameter of shape "
                    f"{list(parameter.shape)} that is none of the model's: nothing would train it"
                )


def _of_config(chosen, groups, options):
    if chosen is None:  # for evaluation: sgd keeps nothing
        options.set_optimizer("sgd")
        return ShardedOptimizer("none", groups, {"lr": 0.0})
    params = dict(chosen.params)
    if not params.pop("bias_correction", True):
        raise _native.UsageError("optimizer.params.bias_correction = false is not offered")
    if (params.pop("max_coeff", 10.0), params.pop("min_coeff", 0.01)) != (10.0, 0.01):
        raise _native.UsageError(
            "optimizer.params.max_coeff and min_coeff: expected 10 and 0.01, others are not offered"
        )
    name = chosen.type
    if name == "sgd" and params.get("momentum"):
        name = "sgd_momentum"
    options.set_optimizer(name)
    return ShardedOptimizer(name, groups, params)


def _of_torch(given, options):
    kind = type(given)
    if kind not in ELEMENTWISE:
        names = ", ".join(each.__name__ for each in ELEMENTWISE)
        raise _native.UsageError(
            f"optimizer {kind.__name__} may need whole parameters, which no rank has: expected one "
            f"of torch.optim's {names}, or none and an optimizer in the config"
        )
    name = _NATIVE.get(kind)
    if any(group.get(each) for group in given.param_groups for each in _ONLY_TORCH):
        name = None
    if name == "sgd" and any(group["momentum"] for group in given.param_groups):
        name = "sgd_momentum"
    sharded = ShardedOptimizer(name or kind.__name__, given.param_groups, given.defaults)
    sharded.param_groups = given.param_groups  # the same dictionaries: schedulers may hold `given`
    if name:
        options.set_optimizer(name)
    else:
        sharded.on_shards = OnShards(given)
        options.set_outside_optimizer(
            f"torch.optim.{kind.__name__}", sharded.on_shards.states, sharded.on_shards
        )
    return sharded


def _settings(group):
    settings = _native.GroupSettings()
    settings.lr = float(group["lr"])
    settings.weight_decay = float(group.get("weight_decay") or 0.0)
    settings.beta1, settings.beta2 = map(float, group.get("betas", (0.9, 0.999)))
    settings.eps = float(group.get("eps", 1e-8))
    settings.momentum = float(group.get("momentum", 0.0))
    settings.dampening = float(group.get("dampening", 0.0))
    settings.nesterov = bool(group.get("nesterov", False))
    return settings
