"""Situations in which trainings were reported to hang, to diverge in silence, or to fail.

Each is a report against another implementation (`#` numbers are DeepSpeed's, others are named),
what thinwire does there, and the tests that show it: "suite.Test" of a C++ test, or
"file.Class.test" of a Python one under tests/python/.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Situation:
    """`tests` all pass, or the behaviour is not there."""

    report: str
    trouble: str
    here: str
    tests: tuple[str, ...]


def _all(*rows: tuple[str, str, str, str]) -> tuple[Situation, ...]:
    return tuple(Situation(*row[:3], tuple(row[3].split())) for row in rows)


ZEROPP = _all(
    (
        "#4851",
        "the kept slice misses updates; the loss never catches up",
        "bit for bit as without a kept slice",
        "EngineSituation.AKeptSliceIsAsFreshAsAPulledOne",
    ),
    (
        "#5059",
        "a prefetched gather overtakes the update; loss 0",
        "each gathered weight is the owner's of that step",
        "EngineSituation.APrefetchedGatherNeverOvertakesTheUpdate",
    ),
    (
        "#7606, #7164",
        "the first step after a load, or after an edit of gathered weights, has stale ones",
        "loads and edits reach kept slices and all ranks",
        "EngineRecipe.ResumedWeightsHaveTheSameCodes "
        "EngineParameter.AnEditReachesAllRanksAndLosesNoMicroBatch "
        "checkpoints_test.CheckpointsTest.test_resume_is_bitwise "
        "situations_test.FourRanksTest.test_an_edit_reaches_kept_slices",
    ),
    (
        "#5030",
        "hangs when a rank skips a module between steps",
        "a skipped module is served; another order in the first pass is an error that names it",
        "situations_test.TwoRanksTest.test_a_module_that_one_rank_skips_in_evaluation "
        "EngineDisagreement.AnotherUnitInTheFirstPass",
    ),
    (
        "#4886",
        "no gain on one node in silence; inf in fp16 and bf16",
        "every combination learns alike in every type; the plan says what is active and why not",
        "EngineSituation.EveryCombinationLearnsAlikeInEveryType "
        "Plan.DescribeSaysWhichPartsOfZeroPlusPlusAreActiveAndWhyNot",
    ),
    (
        "#4852, #3992, #7775",
        "codes of bf16 weights are read as another type",
        "weights arrive in the compute type, within half a step of int8",
        "EngineSituation.GatheredCodesAreTheWeightsInTheComputeType "
        "number_types_test.NumberTypesTest.test_codes_of_bf16_are_within_their_bounds",
    ),
    (
        "quantizer source",
        "bf16 gradients are misread; sums are scaled by the number of ranks",
        "a gradient of 1 is reduced to 1, one of 0.001 to 0.001",
        "EngineRecipes.AGradientOfOneIsReducedToOne EngineRecipes.ASmallGradientStaysWhatItIs",
    ),
    (
        "#5054, #5056, #3864, #4309, #6659",
        "odd numbers of hosts, sizes that nothing divides, fewer elements than ranks",
        "any shape is reduced to its mean within the bound of its format",
        "EngineSituationShapes.AnyShapeIsReducedToItsMean",
    ),
    (
        "quantizer source",
        "groups get scrambled, packed experts are never coded",
        "packed experts and convolutions are coded like matrices",
        "EngineSituation.PackedExpertsAndConvolutionsAreCoded",
    ),
    (
        "#4885",
        "frozen int8 weights with LoRA in bf16 do not train",
        "they do; integers stay whole on each rank",
        "hf_situations_test.SituationsTest.test_lora_over_int8_weights "
        "number_types_test.NumberTypesTest.test_integers_stay_whole_and_are_saved",
    ),
    (
        "#3827",
        "an unknown key crashes, or is passed over",
        "an error that names the nearest key",
        "config_test.UnknownKeyTest.test_every_misspelt_key_finds_its_name",
    ),
    (
        "LoCo",
        "settings of error feedback crash or do nothing",
        "asking for it is an error that says so",
        "config_test.EveryKeyTest.test_refused_keys_say_what_to_do_instead",
    ),
)

ZERO = _all(
    (
        "#860, #2022, #3550, transformers #18281",
        "generate() hangs when ranks stop at different lengths",
        "ranks that are done serve the others",
        "EngineServes.RanksThatStopAtDifferentLengths "
        "passes_test.PassesTest.test_ranks_that_are_done_serve_the_others",
    ),
    (
        "#5066, #4966",
        "experts chosen differently by ranks time out",
        "they train as one process does, without annotation",
        "passes_test.PassesTest.test_experts_that_ranks_choose_differently",
    ),
    (
        "#1896, #3824, #3033, OpenRLHF #747",
        "ties are lost, or a tied head is not saved",
        "ties stay ties, in each stage, under PEFT's prefix too",
        "exports_test.ExportsTest.test_plain_torch_loads_it "
        "hf_stages_test.StagesTest.test_what_is_saved_is_the_plain_model",
    ),
    (
        "#3090",
        "frozen weights are lost on resume",
        "they are in checkpoints",
        "Checkpoint.FrozenParametersHaveTheirWeightsOnly "
        "EngineResume.IsBitForBitWithEveryOptimizerAndFrozenUnits "
        "checkpoints_test.CheckpointsTest.test_frozen_parameters_come_back_or_stay",
    ),
    (
        "#2898, #3810, #5405, #5822, transformers #23152",
        "no resume with another number of ranks",
        "any number of ranks loads, at any stage, without an offline step",
        "Checkpoint.AnyWorldLoadsWhatAnyWorldSaved "
        "situations_test.FourRanksTest.test_other_ranks_and_another_stage_go_on",
    ),
    (
        "#8084",
        "every rank holds the whole model, which looks like running out of memory",
        "memory goes back as parameters are taken; a model from the meta device is never whole",
        "building_test.BuildingTest.test_never_more_than_a_unit_beside_the_shard",
    ),
    (
        "#8072, trl #6089",
        "a bf16 base with fp32 LoRA: output tensor must have the same type",
        "each parameter computes in its type",
        "number_types_test.NumberTypesTest.test_a_bf16_base_and_fp32_adapters_keep_their_types "
        "EngineTypes.UnitsAreTrainedAsInModelsOfTheirType",
    ),
    (
        "#4295, peft #1328, #2450, accelerate #3508",
        "a saved adapter has tensors of size 0",
        "adapters are whole in each stage",
        "hf_stages_test.StagesTest.test_adapters_are_whole",
    ),
    (
        "#7848, transformers #43964",
        "packed weights that a file lacks are random in silence",
        "a missing key is an error with its name",
        "building_test.BuildingTest.test_what_cannot_be_built_is_named",
    ),
    (
        "#7898, #8061, #5545, #6351",
        "results depend on overlap and the size of buckets",
        "chunks, prefetch and grouping change no bit",
        "EngineSituation.ChunksAndPrefetchChangeNoBit "
        "EngineSituation.GroupingIntoUnitsChangesNoBit",
    ),
    (
        "#6793, accelerate #3481",
        "no_sync is an assertion in stages 2 and 3",
        "works in each stage; a step is the same however it is split",
        "passes_test.PassesTest.test_a_step_is_the_same_however_it_is_split",
    ),
    (
        "#1748, #1686",
        "load then save, or a save between micro-batches, breaks",
        "the first is exact; the second holds the step before",
        "checkpoints_test.CheckpointsTest.test_resume_is_bitwise "
        "checkpoints_test.CheckpointsTest.test_a_save_between_micro_batches_holds_the_step_before",
    ),
    (
        "#3607, #1111",
        "tensor parallelism saves a part; every rank loads all optimizer states",
        "model parallelism is refused by name; a load takes no more than the shard",
        "situations_test.TwoRanksTest.test_what_is_not_offered_is_named "
        "situations_test.TwoRanksTest.test_loading_reads_no_more_than_the_shard",
    ),
    (
        "#930, #876, #1047, #6987",
        "a partitioned parameter outside forward is empty, or breaks in silence",
        "an error with its name; full_params gives all of it",
        "parameters_test.ParametersTest.test_a_released_parameter_says_its_name "
        "parameters_test.ParametersTest.test_edits_reach_all_ranks",
    ),
    (
        "#5047, #3901",
        "a hook and a gather per parameter make small ones slow",
        "2,000 tiny parameters cost no message more (and see overhead.py)",
        "EngineSituation.TwoThousandTinyParametersCostNoMessageMore",
    ),
    (
        "#7653",
        "communication_data_type is an error at step 3",
        "each type in each stage",
        "number_types_test.NumberTypesTest.test_each_type_of_messages_in_each_stage",
    ),
)

INSTALLING = _all(
    (
        "#1846, #1077, #5429",
        "operators are compiled at run time; a failure hides its cause",
        "nothing is compiled at run time, and what fails says the first cause",
        "install_test.InstalledTest.test_nothing_is_compiled_at_run_time "
        "install_test.InstalledTest.test_an_engine_that_does_not_load_says_the_first_cause",
    ),
    (
        "#2772, #6636, #4614",
        "no installation without nvcc",
        "neither nvcc nor a GPU is asked for (and see install.py)",
        "install_test.InstalledTest.test_info_tells_what_was_built",
    ),
    (
        "#4853",
        "another torch breaks a private call",
        "one sentence says which torch the engine was built for",
        "install_test.InstalledTest.test_another_torch_is_one_clear_sentence",
    ),
)

ECOSYSTEM = _all(
    (
        "accelerate #3979",
        "masters are bf16 in silence",
        "masters are fp32, and the plan says so",
        "hf_stages_test.StagesTest.test_masters_are_fp32",
    ),
    (
        "trl #4416, peft #2892",
        "LoRA under stage 3 saves an adapter of 40 bytes",
        "adapters are whole",
        "hf_stages_test.StagesTest.test_adapters_are_whole",
    ),
    (
        "pytorch #169448, #143536, accelerate #3250",
        "a save that one rank calls alone hangs",
        "an error within seconds that names the call and the ranks",
        "alone_test.AloneTest.test_the_others_go_on "
        "alone_test.AloneTest.test_the_others_have_ended "
        "alone_test.AloneTest.test_the_others_sleep EngineAlone.WhileOthersTrainOn",
    ),
    (
        "transformers #43749, verl #7834",
        "every rank loads everything; ties come apart",
        "each rank reads its shard from safetensors, ties kept",
        "building_test.BuildingTest.test_what_is_built_is_the_model "
        "building_test.BuildingTest.test_never_more_than_a_unit_beside_the_shard",
    ),
    (
        "accelerate #3552, #1970, transformers #34694",
        "two owners of the micro-batch counter: losses scaled twice",
        "one owner; loss and norm are the same for each split of a step",
        "hf_situations_test.SituationsTest.test_a_step_is_the_same_however_it_is_split "
        "passes_test.PassesTest.test_a_step_is_the_same_however_it_is_split",
    ),
    (
        "pytorch #170862, VeOmni #184, axolotl #3058",
        "clipping by a local norm, or one that counts replicas",
        "the norm is that of one process on any hosts x ranks",
        "situations_test.FourRanksTest.test_the_norm_is_that_of_one_process_on_any_hosts",
    ),
    (
        "accelerate #3793",
        "two groups, two orders: a hang",
        "one program for all ranks; another order is an error that names it",
        "EngineDisagreement.AnotherOrderLater "
        "Agreement.DisagreementNamesRanksAndIntentsAlikeEverywhere",
    ),
    (
        "transformers #22170, #17114, accelerate #3199, #7320",
        "a resume finds nothing, or another tag; evaluation spikes after it",
        "latest and tags are found; a resumed run is the straight one bit for bit",
        "checkpoints_test.CheckpointsTest.test_resume_is_bitwise "
        "hf_situations_test.SituationsTest.test_lora_resumes_bit_for_bit",
    ),
    (
        "accelerate #3140",
        "one engine per process",
        "engines are objects",
        "EngineResult.TwoEnginesAtTheSameTime "
        "hf_situations_test.SituationsTest.test_two_engines_in_a_process",
    ),
    (
        "torchtitan #3123",
        "a compression flag does nothing, in silence",
        "what is not compressed is reported with the reason",
        "fsdp_test.FsdpTest.test_what_cannot_be_compressed_is_reported "
        "Plan.DescribeSaysWhichPartsOfZeroPlusPlusAreActiveAndWhyNot",
    ),
    (
        "any",
        "a rank dies, or falls silent",
        "an error on every other rank within the deadline, with its number",
        "EngineDeath.ARankThatThrows EngineDeathOf.AStoppedRankIsLostWithinTheDeadline "
        "EngineServe.ARankThatDiesEndsTheOthers",
    ),
    (
        "any",
        "an exception in forward or backward, and a retry",
        "the retry is as if nothing had been",
        "EngineAbandon.ARetryEqualsOneProcess "
        "passes_test.PassesTest.test_a_retry_is_as_if_nothing_had_been",
    ),
)

GROUPS = {
    "ZeRO++": ZEROPP,
    "ZeRO": ZERO,
    "Installation": INSTALLING,
    "Around it": ECOSYSTEM,
}
