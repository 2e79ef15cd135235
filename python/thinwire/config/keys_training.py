"""Keys of what is computed: batches, precision, optimizer, scheduler."""

from .key import NO_AUTO, REQUIRED, honoured, no_effect, refused, section
from .kinds import LEAST_FP32, Anything, Boolean, Choice, Integer, ListOf, Number, Text

_COUNT = Integer(1, 2**31 - 1)
_STEPS = Integer(0, 10**12)
_RATE = Number(0)
_BETA = Number(0, 0.999999)
_SUMS = "sums are fp32 and means exact, whatever the type that is sent"
_MASTERS = "master weights and optimizer state are fp32, divided over ranks: take it out"
_ONE_KERNEL = "there is one implementation of each optimizer"

_ONE_BIT = 'it excludes ZeRO; "zero_quantized_gradients": true saves bytes with any optimizer'
_USERS_OWN = "make a torch.optim optimizer yourself and pass it to initialize()"
OPTIMIZERS = ("Adam", "AdamW", "Lamb", "Lion", "SGD")
_OPTIMIZER = Choice(
    OPTIMIZERS,
    refused=(
        ("OneBitAdam", _ONE_BIT),
        ("ZeroOneAdam", _ONE_BIT),
        ("OneBitLamb", _ONE_BIT),
        ("Muon", "it needs whole matrices, which no rank holds here"),
        ("Adagrad", _USERS_OWN),
        ("MuAdam", _USERS_OWN),
        ("MuAdamW", _USERS_OWN),
        ("MuSGD", _USERS_OWN),
    ),
)
SCHEDULERS = ("LRRangeTest", "OneCycle", "WarmupCosineLR", "WarmupDecayLR", "WarmupLR")
_DTYPES = (
    ("float32", "fp32"),
    ("torch.float32", "fp32"),
    ("bfloat16", "bf16"),
    ("torch.bfloat16", "bf16"),
    ("float16", "fp16"),
    ("torch.float16", "fp16"),
    ("half", "fp16"),
)
DTYPE = Choice(("bf16", "fp16", "fp32"), other=_DTYPES)
_LOW = Choice(("bf16", "fp16"), other=tuple(pair for pair in _DTYPES if pair[1] != "fp32"))

BATCH = [
    honoured("train_batch_size", _COUNT, None, "samples per optimizer step, all ranks", auto=None),
    honoured(
        "train_micro_batch_size_per_gpu",
        _COUNT,
        None,
        "samples per rank in one forward pass",
        auto=None,
    ),
    honoured(
        "gradient_accumulation_steps",
        _COUNT,
        None,
        "forward and backward passes per optimizer step",
        auto=None,
    ),
    honoured(
        "gradient_clipping",
        Number(0),
        None,
        "clips the global norm of the gradient; 0 or unset: off (DeepSpeed: 1.0 if unset)",
        auto=None,
    ),
    honoured(
        "communication_data_type",
        DTYPE,
        None,
        "type in which gradients are sent, where the recipe has no codec for them; sums are fp32",
    ),
    no_effect("prescale_gradients", Boolean(), False, _SUMS),
    no_effect("gradient_predivide_factor", Number(LEAST_FP32), 1.0, _SUMS),
    refused(
        "gradient_allreduce_op",
        Choice(("mean", "sum")),
        "mean",
        "gradients are means over ranks: multiply the loss by the number of ranks",
    ),
    refused(
        "sparse_gradients",
        Boolean(),
        False,
        "gradients of embeddings travel as dense ones: take it out",
    ),
    refused(
        "managed_gradient_accumulation",
        Boolean(),
        True,
        "take it out: engine.set_gradient_accumulation_boundary() ends a step where you want",
    ),
]

PRECISION = [
    section(
        "bf16",
        honoured(
            "enabled",
            Boolean(),
            False,
            "computes in bf16 with fp32 masters; with neither this nor fp16 each parameter is "
            "gathered in its own type",
            auto=False,
        ),
        no_effect("immediate_grad_update", Boolean(), False, "gradients are reduced at once"),
        no_effect(
            "check_grad_overflow",
            Boolean(),
            True,
            "steps with inf or NaN in a gradient are always skipped",
            aliases=("check_overflow",),
        ),
        refused("bf16_master_weights_and_grads", Boolean(), False, _MASTERS),
        refused("bf16_optimizer_states", Boolean(), False, _MASTERS),
        gate="enabled",
        aliases=("bfloat16",),
    ),
    section(
        "fp16",
        honoured("enabled", Boolean(), False, "computes in fp16 with fp32 masters", auto=False),
        honoured("auto_cast", Boolean(), False, "casts the inputs of the model to fp16"),
        honoured(
            "loss_scale", Number(0, 2.0**24), 0.0, "fixed factor of the loss; 0: adapted", auto=0.0
        ),
        honoured(
            "initial_scale_power", Integer(0, 64), 16, "adapted: starts at 2 to this", auto=16
        ),
        honoured(
            "loss_scale_window", _COUNT, 1000, "adapted: good steps until it doubles", auto=1000
        ),
        honoured("hysteresis", _COUNT, 2, "adapted: bad steps until it halves", auto=2),
        honoured(
            "consecutive_hysteresis",
            Boolean(),
            False,
            "adapted: a good step forgives the bad ones before it",
        ),
        honoured("min_loss_scale", Number(2.0**-24, 2.0**24), 1.0, "adapted: not below", auto=1.0),
        refused("fp16_master_weights_and_grads", Boolean(), False, _MASTERS),
        gate="enabled",
    ),
    section(
        "torch_autocast",
        honoured("enabled", Boolean(), False, "forward runs under torch.autocast", auto=False),
        honoured(
            "dtype",
            _LOW,
            "bf16",
            "in this type, in which matrices are gathered too, but for those of embeddings",
        ),
        no_effect(
            "lower_precision_safe_modules",
            ListOf(Text()),
            None,
            "torch.autocast's own list of operators decides",
        ),
        gate="enabled",
    ),
    section(
        "data_types",
        no_effect("grad_accum_dtype", DTYPE, None, "gradients are accumulated in fp32"),
        refused("param_dtype", DTYPE, None, "use bf16.enabled or fp16.enabled"),
        refused(
            "buffer_dtype", DTYPE, None, "buffers keep their type: cast them before initialize()"
        ),
    ),
]


def _of_adam(name, kind, default, text, **more):
    return honoured(name, kind, default, text, only=("Adam", "AdamW"), **more)


OPTIMIZER = [
    section(
        "optimizer",
        honoured("type", _OPTIMIZER, None, f"one of {', '.join(OPTIMIZERS)}"),
        no_effect("legacy_fusion", Boolean(), False, _ONE_KERNEL),
    ),
    section(
        "optimizer.params",
        honoured("lr", _RATE, 1e-3, "learning rate", auto=REQUIRED),
        honoured(
            "betas",
            ListOf(_BETA, 2),
            (0.9, 0.999),
            "decay of the averages of gradients and of their squares",
            auto=(0.9, 0.999),
            only=("Adam", "AdamW", "Lamb", "Lion"),
        ),
        honoured(
            "eps",
            Number(LEAST_FP32, 1),
            1e-8,
            "in the denominator",
            auto=1e-8,
            only=("Adam", "AdamW", "Lamb"),
        ),
        honoured(
            "weight_decay",
            Number(0),
            0.0,
            "decay of weights per unit of lr; unset with torch_adam and AdamW: 0.01, as in torch",
            auto=0.0,
        ),
        honoured(
            "bias_correction",
            Boolean(),
            True,
            "corrects the averages of the first steps",
            only=("Adam", "AdamW", "Lamb"),
        ),
        _of_adam(
            "adam_w_mode",
            Boolean(),
            True,
            "Adam decays weights as AdamW does; false: adds the decay to the gradient",
            aliases=("adamw_mode",),
        ),
        _of_adam("torch_adam", Boolean(), False, "weight_decay, if unset, is that of torch.optim"),
        honoured("momentum", Number(0, 0.999999), 0.0, "decay of the velocity", only=("SGD",)),
        honoured("dampening", Number(0, 1), 0.0, "of the gradient in the velocity", only=("SGD",)),
        honoured("nesterov", Boolean(), False, "looks ahead by one step", only=("SGD",)),
        honoured("max_coeff", _RATE, 10.0, "upper bound of the trust ratio", only=("Lamb",)),
        honoured("min_coeff", _RATE, 0.01, "lower bound of the trust ratio", only=("Lamb",)),
        no_effect("foreach", Boolean(), None, _ONE_KERNEL),
        no_effect("fused", Boolean(), None, _ONE_KERNEL),
        no_effect("capturable", Boolean(), False, _ONE_KERNEL),
        no_effect("set_grad_none", Boolean(), True, "gradients are freed as they are reduced"),
        no_effect("fp32_optimizer_states", Boolean(), True, "optimizer state is fp32"),
        refused("amsgrad", Boolean(), False, "the AMSGrad variant is not built: take it out"),
        refused("maximize", Boolean(), False, "negate the loss instead"),
        refused("eps_inside_sqrt", Boolean(), False, "eps is added outside: take it out"),
        refused("max_grad_norm", Number(0), 0.0, "use gradient_clipping"),
    ),
]


def _of(schedulers, name, kind, default, text, auto=NO_AUTO):
    return honoured(name, kind, default, text, only=schedulers, auto=auto)


_WARMUPS = ("WarmupLR", "WarmupDecayLR")
_WITH_END = ("WarmupDecayLR", "WarmupCosineLR")
_ALL_WARMUPS = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
_TEST = ("LRRangeTest",)
_CYCLE = ("OneCycle",)

SCHEDULER = [
    section(
        "scheduler",
        honoured("type", Choice(SCHEDULERS), None, f"one of {', '.join(SCHEDULERS)}"),
    ),
    section(
        "scheduler.params",
        _of(_WARMUPS, "warmup_min_lr", _RATE, 0.0, "where the warm-up begins", auto=0.0),
        _of(
            _WARMUPS,
            "warmup_max_lr",
            _RATE,
            None,
            "where it ends; unset: optimizer.params.lr",
            None,
        ),
        _of(_ALL_WARMUPS, "warmup_num_steps", _STEPS, 1000, "steps of warm-up, 2 at least", 1000),
        _of(_ALL_WARMUPS, "warmup_type", Choice(("log", "linear")), "log", "its shape", "log"),
        _of(_WITH_END, "total_num_steps", _STEPS, REQUIRED, "steps until the end", REQUIRED),
        _of(("WarmupCosineLR",), "warmup_min_ratio", Number(0, 1), 0.0, "of lr, at its begin", 0.0),
        _of(("WarmupCosineLR",), "cos_min_ratio", Number(0, 1), 1e-4, "of lr, at the end", 1e-4),
        _of(_TEST, "lr_range_test_min_lr", _RATE, 1e-3, "first rate"),
        _of(_TEST, "lr_range_test_step_size", _COUNT, 2000, "steps per increase"),
        _of(_TEST, "lr_range_test_step_rate", _RATE, 1.0, "increase, as a part of the first rate"),
        _of(_TEST, "lr_range_test_staircase", Boolean(), False, "increases in stairs"),
        _of(_CYCLE, "cycle_min_lr", _RATE, REQUIRED, "rate at the ends of the cycle", REQUIRED),
        _of(_CYCLE, "cycle_max_lr", _RATE, REQUIRED, "rate at its top", REQUIRED),
        _of(_CYCLE, "decay_lr_rate", _RATE, 0.0, "decay after the cycle"),
        _of(_CYCLE, "cycle_first_step_size", _COUNT, 2000, "steps up"),
        _of(_CYCLE, "cycle_second_step_size", _STEPS, None, "steps down; unset: as many"),
        _of(_CYCLE, "cycle_first_stair_count", _STEPS, 0, "stairs up; 0: none"),
        _of(_CYCLE, "cycle_second_stair_count", _STEPS, None, "stairs down; unset: as many"),
        _of(_CYCLE, "decay_step_size", _STEPS, 0, "steps per decay; 0: no decay"),
        _of(_CYCLE, "cycle_momentum", Boolean(), True, "the momentum moves against the rate"),
        _of(_CYCLE, "cycle_min_mom", Number(0, 0.999999), 0.8, "momentum at the top"),
        _of(_CYCLE, "cycle_max_mom", Number(0, 0.999999), 0.9, "momentum at the ends"),
        _of(_CYCLE, "decay_mom_rate", _RATE, 0.0, "growth of the momentum after the cycle"),
        no_effect("last_batch_iteration", Integer(-1), -1, "load_checkpoint sets the step"),
    ),
]

AMP = refused(
    "amp",
    Anything(),
    None,
    "Apex is not used: take bf16.enabled, fp16.enabled or torch_autocast.enabled",
    quiet=({}, {"enabled": False}),
)
