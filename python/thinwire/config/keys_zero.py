"""Keys of `zero_optimization` with its blocks, and of `aio`."""

from .key import honoured, no_effect, refused, section, without_effect
from .kinds import Anything, Boolean, Choice, Integer, ListOf, Number, Text

_BUCKETS = "a unit's flat is what is sent, in planned buffers: there are no buckets"
_RESIDENCY = "the plan decides which units stay in a buffer; thinwire.prefetch is the setting"
_OFFLOAD = (
    "thinwire offloads nothing: take it out, and use stage 3 or more ranks, over which weights, "
    "gradients and optimizer state are divided"
)
_ANY_RANKS = "the checkpoint says which rank wrote what"
_FILES = "nothing is offloaded to files"

_DEVICE = Choice(("none",), refused=(("cpu", _OFFLOAD), ("nvme", _OFFLOAD)))


def _offload(name, **more):
    rows = {
        "nvme_path": (Text(), None),
        "buffer_count": (Integer(), 5),
        "pin_memory": (Boolean(), True),
    }
    return section(
        f"zero_optimization.{name}",
        refused("device", _DEVICE, "none", _OFFLOAD, auto="none"),
        without_effect("nothing is offloaded", **rows, **more),
        gate="device",
    )


SECTIONS = [
    section(
        "zero_optimization",
        honoured(
            "stage",
            Integer(0, 3),
            0,
            "what is divided over ranks: 1 optimizer state, 2 also gradients, 3 also weights",
            auto=3,
        ),
        honoured(
            "zero_quantized_weights",
            Boolean(),
            False,
            "qwz: weights travel as int8, in blocks of 128",
        ),
        honoured(
            "zero_quantized_gradients",
            Boolean(),
            False,
            "qgz: gradients travel as int4, in blocks of 128",
        ),
        honoured(
            "zero_hpz_partition_size",
            Integer(0, 2**20),
            1,
            "hpz: a rank keeps its slice of its host's weights; also thinwire.ranks_per_host",
        ),
        honoured(
            "stage3_gather_16bit_weights_on_model_save",
            Boolean(),
            False,
            "the Trainer's saves hold the whole model, gathered over ranks",
            auto=False,
            aliases=(
                "stage3_gather_fp16_weights_on_model_save",
                "gather_16bit_weights_on_model_save",
            ),
        ),
        without_effect(
            _BUCKETS,
            allgather_partitions=(Boolean(), True),
            reduce_scatter=(Boolean(), True),
            contiguous_gradients=(Boolean(), True),
            use_multi_rank_bucket_allreduce=(Boolean(), True),
            round_robin_gradients=(Boolean(), False),
            sub_group_size=(Integer(), 10**9),
            stage3_module_granularity_threshold=(Integer(), 0),
            stage3_allgather_sequential=(Boolean(), False),
            stage3_use_all_reduce_for_fetch_params=(Boolean(), False),
        ),
        no_effect("reduce_bucket_size", Integer(), 5 * 10**8, _BUCKETS, auto=None),
        no_effect("allgather_bucket_size", Integer(), 5 * 10**8, _BUCKETS, auto=None),
        no_effect(
            "stage3_prefetch_bucket_size",
            Integer(),
            5 * 10**7,
            _RESIDENCY,
            auto=None,
            aliases=("prefetch_bucket_size",),
        ),
        no_effect(
            "stage3_param_persistence_threshold",
            Integer(),
            10**5,
            _RESIDENCY,
            auto=None,
            aliases=("param_persistence_threshold",),
        ),
        no_effect("stage3_model_persistence_threshold", Integer(), 2**63 - 1, _RESIDENCY),
        no_effect(
            "stage3_max_live_parameters",
            Integer(),
            10**9,
            _RESIDENCY,
            auto=None,
            aliases=("max_live_parameters",),
        ),
        no_effect(
            "stage3_max_reuse_distance",
            Integer(),
            10**9,
            _RESIDENCY,
            auto=None,
            aliases=("max_reuse_distance",),
        ),
        no_effect(
            "overlap_comm",
            Boolean(),
            None,
            "traffic always overlaps with computing",
            auto=None,
        ),
        no_effect(
            "ignore_unused_parameters",
            Boolean(),
            True,
            "a parameter that no rank used in a step is left alone by it, as in torch",
        ),
        no_effect("enable_sanity_checks", Boolean(), False, "ranks compare what they send anyway"),
        without_effect(
            _ANY_RANKS,
            elastic_checkpoint=(Boolean(), False),
            load_from_fp32_weights=(Boolean(), True),
            pipeline_loading_checkpoint=(Boolean(), False),
        ),
        without_effect(
            "it is a detail of DeepSpeed's own code",
            memory_efficient_linear=(Boolean(), True),
            override_module_apply=(Boolean(), True),
            log_trace_cache_warnings=(Boolean(), False),
            save_muon_momentum_buffer_in_memory=(Boolean(), False),
            cpu_offload_use_pin_memory=(Boolean(), None),
            legacy_stage1=(Boolean(), False),
        ),
        refused("cpu_offload", Boolean(), None, _OFFLOAD, quiet=(False,)),
        refused("cpu_offload_param", Boolean(), None, _OFFLOAD, quiet=(False,)),
        refused(
            "zero_quantized_nontrainable_weights",
            Boolean(),
            False,
            "frozen weights keep their own type: zero_quantized_weights is for what is sent",
        ),
        refused("zenflow", Anything(), None, _OFFLOAD),
        refused(
            "zeropp_loco_param",
            Anything(),
            None,
            "error feedback on gradients is not built: take it out; int4 has blocks of 128 here",
        ),
        refused(
            "mics_shard_size",
            Integer(-1, 2**20),
            -1,
            "use zero_hpz_partition_size: weights stay in the host, state is divided by all ranks",
        ),
        refused(
            "mics_hierarchical_params_gather",
            Boolean(),
            False,
            "take it out: gathers always take the slow and then the fast hop",
        ),
    ),
    _offload(
        "offload_optimizer",
        **{
            "pipeline_read": (Boolean(), False),
            "pipeline_write": (Boolean(), False),
            "fast_init": (Boolean(), False),
            "ratio": (Number(0, 1), 1.0),
            "super_offload": (Boolean(), False),
            "cpuadam_cores_perc": (Number(0, 1), 0.8),
        },
    ),
    _offload("offload_param", buffer_size=(Integer(), 10**8), max_in_cpu=(Integer(), 10**9)),
    section(
        "zero_optimization.leaf_module",
        without_effect(
            "experts whose use differs between ranks need no list: a skipped unit is served",
            classes=(ListOf(Text()), None),
            names=(ListOf(Text()), None),
            name_suffixes=(ListOf(Text()), None),
        ),
    ),
    section(
        "aio",
        without_effect(
            _FILES,
            block_size=(Integer(1), 1048576),
            queue_depth=(Integer(1), 8),
            single_submit=(Boolean(), False),
            overlap_events=(Boolean(), True),
            use_gds=(Boolean(), False),
        ),
        no_effect("intra_op_parallelism", Integer(1), 1, _FILES, aliases=("thread_count",)),
    ),
]
