"""Keys of what surrounds training (logs, monitors, checkpoints, launchers) and of other engines."""

from .key import honoured, no_effect, refused, section, without_effect
from .kinds import Anything, Boolean, Choice, Integer, ListOf, Number, Text

_LOGS = (
    "thinwire writes to no monitor: log what the engine returns, or use report_to of the Trainer"
)
_PROFILER = "use torch.profiler, in which every hop has a name"
_REPORT = "the plan with its memory and the effective config are printed before the first step"
_CHECKPOINTING = "the model's own activation checkpointing (torch.utils.checkpoint) is what counts"
_TRIALS = "thinwire starts no trial runs: take the block out"
_ELASTIC = "restart with another number of ranks and load the checkpoint: take the block out"
_COMPILE = "thinwire compiles no graph: take the block out and call torch.compile on the model"
_SAFETENSORS = "checkpoints are safetensors files, written by every rank at once"
_OFF = {"enabled": False}


def _monitor(name, **kinds):
    return section(
        name,
        no_effect("enabled", Boolean(), False, _LOGS),
        without_effect(_LOGS, **kinds),
        gate="enabled",
    )


def _other(name, instead, quiet=()):
    """A part of DeepSpeed that thinwire has not: present and not switched off is an error."""
    return refused(name, Anything(), None, instead, quiet=({}, _OFF, *quiet))


REPORTS = [
    honoured(
        "steps_per_print",
        Integer(1, endless=True),
        None,
        "prints loss, rate and speed every so many steps; unset: never",
    ),
    honoured(
        "wall_clock_breakdown",
        Boolean(),
        False,
        "prints times of forward, backward and step every steps_per_print steps, or ten",
    ),
    honoured("dataloader_drop_last", Boolean(), False, "drops the last, short batch of the data"),
    no_effect("memory_breakdown", Boolean(), False, _REPORT),
    no_effect("dump_state", Boolean(), False, _REPORT),
    no_effect("log_level", Text(), None, "thinwire prints little, and nothing twice"),
    no_effect("vocabulary_size", Integer(1), None, "shapes come from the model"),
    no_effect(
        "zero_allow_untested_optimizer",
        Boolean(),
        False,
        "element-wise optimizers are taken, others are refused by name",
    ),
    no_effect("zero_force_ds_cpu_optimizer", Boolean(), True, "nothing is offloaded"),
    no_effect(
        "seq_parallel_communication_data_type",
        Choice(("fp16", "bf16", "fp32")),
        "fp32",
        "there is no sequence parallelism",
    ),
    no_effect("graph_harvesting", Boolean(), False, "there are no CUDA graphs"),
]

OTHERS = [
    refused("disable_allgather", Boolean(), False, "take it out: weights have to be gathered"),
    refused("use_data_before_expert_parallelism", Boolean(), False, "take it out"),
    refused(
        "sequence_parallel_size", Integer(1), 1, "sequence parallelism is not built: take it out"
    ),
    _other("pipeline", "pipeline parallelism is not built: take it out"),
    _other("expert_parallel", "experts are sharded like other weights: take it out"),
    _other("sparse_attention", "the model's own attention is used: take it out"),
    _other("hybrid_engine", "generate() works in the sharded model: take it out"),
    _other("progressive_layer_drop", "it changes the model: take it out"),
    _other("eigenvalue", "it belongs to quantization in training, which is not built: take it out"),
    _other("curriculum_learning", "order the data in your own sampler: take it out"),
    _other("data_efficiency", "order the data in your own sampler: take it out"),
    _other("compression_training", "it changes the model: take it out"),
    _other("quantize_training", "it changes the model: take it out"),
    _other("weight_quantization", "it is for inference: take it out"),
    _other("nebula", _SAFETENSORS + ": take it out"),
    _other("datastates_ckpt", _SAFETENSORS + ": take it out", quiet=(False,)),
]

SECTIONS = [
    section(
        "comms_logger",
        honoured(
            "enabled", Boolean(), False, "prints calls, bytes and time of each hop at the end"
        ),
        without_effect(
            "the summary has every hop",
            verbose=(Boolean(), False),
            prof_all=(Boolean(), True),
            prof_ops=(ListOf(Text()), ()),
            debug=(Boolean(), False),
        ),
        gate="enabled",
    ),
    _monitor("tensorboard", output_path=(Text(), ""), job_name=(Text(), "DeepSpeedJobName")),
    _monitor("csv_monitor", output_path=(Text(), ""), job_name=(Text(), "DeepSpeedJobName")),
    _monitor("wandb", group=(Text(), None), team=(Text(), None), project=(Text(), "deepspeed")),
    _monitor(
        "comet",
        samples_log_interval=(Integer(1), 100),
        project=(Text(), None),
        workspace=(Text(), None),
        api_key=(Text(), None),
        experiment_name=(Text(), None),
        experiment_key=(Text(), None),
        online=(Boolean(), None),
        mode=(Text(), None),
    ),
    section(
        "flops_profiler",
        no_effect("enabled", Boolean(), False, _PROFILER),
        without_effect(
            _PROFILER,
            recompute_fwd_factor=(Number(0), 0.0),
            profile_step=(Integer(1), 1),
            module_depth=(Integer(-1), -1),
            top_modules=(Integer(1), 1),
            detailed=(Boolean(), True),
            output_file=(Text(), None),
        ),
        gate="enabled",
    ),
    section(
        "timers.throughput",
        without_effect(
            "throughput is measured, without synchronizing the device",
            enabled=(Boolean(), True),
            synchronized=(Boolean(), True),
        ),
    ),
    section("timers"),
    section(
        "activation_checkpointing",
        without_effect(
            _CHECKPOINTING,
            partition_activations=(Boolean(), False),
            cpu_checkpointing=(Boolean(), False),
            contiguous_memory_optimization=(Boolean(), False),
            number_checkpoints=(Integer(1), None),
            synchronize_checkpoint_boundary=(Boolean(), False),
            profile=(Boolean(), False),
        ),
    ),
    section(
        "checkpoint",
        no_effect(
            "tag_validation",
            Choice(("Ignore", "Warn", "Fail")),
            "Warn",
            "ranks that save under different tags are always an error",
        ),
        refused(
            "load_universal",
            Boolean(),
            False,
            "DeepSpeed's checkpoints are not read: start from the model's safetensors",
        ),
        refused(
            "use_node_local_storage", Boolean(), False, "save to a folder that all hosts share"
        ),
        no_effect("parallel_write", Anything(), None, _SAFETENSORS),
        no_effect("writer", Anything(), None, _SAFETENSORS),
        no_effect("checkpoint_serialization", Boolean(), True, _SAFETENSORS),
    ),
    section(
        "autotuning",
        refused("enabled", Boolean(), False, _TRIALS),
        without_effect(
            _TRIALS,
            fast=(Boolean(), True),
            metric=(Choice(("latency", "throughput", "flops")), "throughput"),
            results_dir=(Text(), "autotuning_results"),
            exps_dir=(Text(), "autotuning_exps"),
            overwrite=(Boolean(), True),
            start_profile_step=(Integer(), 3),
            end_profile_step=(Integer(), 5),
            metric_path=(Text(), None),
            tuner_type=(Choice(("gridsearch", "random", "model_based")), "gridsearch"),
            tuner_early_stopping=(Integer(), 5),
            tuner_num_trials=(Integer(), 50),
            arg_mappings=(Anything(), None),
            max_train_batch_size=(Integer(1), None),
            min_train_batch_size=(Integer(1), 1),
            max_train_micro_batch_size_per_gpu=(Integer(1), 1024),
            min_train_micro_batch_size_per_gpu=(Integer(1), 1),
            num_tuning_micro_batch_sizes=(Integer(1), 3),
            mp_size=(Integer(1), 1),
            model_info=(Anything(), None),
            model_info_path=(Text(), None),
        ),
        gate="enabled",
    ),
    section(
        "elasticity",
        refused("enabled", Boolean(), False, _ELASTIC),
        without_effect(
            _ELASTIC,
            max_train_batch_size=(Integer(1), 2000),
            micro_batch_sizes=(ListOf(Integer(1)), (2, 4, 6)),
            min_gpus=(Integer(1), 1),
            max_gpus=(Integer(1), 10000),
            num_gpus_per_node=(Integer(1), 1),
            model_parallel_size=(Integer(1), 1),
            min_time=(Integer(), 0),
            prefer_larger_batch=(Boolean(), True),
            ignore_non_elastic_batch_info=(Boolean(), False),
            version=(Number(0), 0.2),
        ),
        gate="enabled",
    ),
    section(
        "compile",
        refused("deepcompile", Boolean(), False, _COMPILE),
        without_effect(
            _COMPILE,
            free_activation=(Boolean(), False),
            free_activation_threshold=(Integer(), 10 * 2**20),
            offload_activation=(Boolean(), False),
            offload_activation_pin_memory=(Boolean(), True),
            offload_opt_states=(Boolean(), False),
            double_buffer=(Boolean(), True),
            symmetric_memory=(Boolean(), False),
            debug_log=(Boolean(), False),
            offload_parameters=(Boolean(), False),
            sync_before_reduce=(Boolean(), False),
            sync_after_reduce=(Boolean(), False),
            sync_before_allgather=(Boolean(), False),
            sync_after_allgather=(Boolean(), False),
            keep_int_input_tensors=(Boolean(), True),
            keep_all_input_tensors=(Boolean(), False),
            passes=(ListOf(Text()), None),
        ),
        gate="deepcompile",
    ),
    section(
        "tensor_parallel",
        refused(
            "autotp_size",
            Integer(),
            0,
            "tensor parallelism is not built: take the block out; stage 3 divides weights instead",
            quiet=(1,),
        ),
        without_effect(
            "there is no tensor parallelism",
            preset_model=(Text(), None),
            partition_config=(Anything(), None),
            tp_overlap_comm=(Boolean(), False),
            tp=(Anything(), None),
            tp_size=(Integer(1), 1),
            tp_grain_size=(Integer(1), 1),
            injection_policy_tuple=(Anything(), None),
            keep_module_on_host=(Boolean(), False),
            replace_with_kernel_inject=(Boolean(), False),
        ),
        gate="autotp_size",
    ),
]
