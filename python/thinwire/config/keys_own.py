"""Keys of the section `thinwire`: what no DeepSpeed config can say."""

from .key import honoured, section
from .kinds import Boolean, Choice, Integer, ListOf, Number, Text

SECTION = section(
    "thinwire",
    honoured(
        "recipe",
        Text(),
        None,
        "`zero3`, `zero++` ... ([recipes](recipes.md)); `auto` or `automatic`: the fastest "
        "([planner](planner.md)); unset: as the ZeRO++ keys say, else `zero3`",
    ),
    honoured(
        "loss_budget",
        Number(0, 100),
        0.25,
        "with recipe `auto`: percent by which a recipe may be expected to raise the loss",
    ),
    honoured(
        "review_steps",
        Integer(0, 2**31),
        500,
        "with recipe `auto`: steps between looks at what was chosen; 0: none",
    ),
    honoured(
        "wire",
        Choice(("compute", "bf16", "fp16", "fp32")),
        "compute",
        "type of what is sent without a codec; `compute`: as weights and gradients are in a pass",
    ),
    honoured("hosts", Integer(1, 2**20), None, "hosts joined by the slow link; unset: detected"),
    honoured("ranks_per_host", Integer(1, 2**20), None, "processes per host; unset: detected"),
    honoured("prefetch", Integer(0, 1000), 2, "units gathered ahead of the one in use"),
    honoured(
        "chunk_bytes", Integer(4096, 2**30), 2**22, "a message carries about this much at most"
    ),
    honoured(
        "full_weights_every",
        Integer(1, 2**30),
        512,
        "steps from one sending of a unit's full values to the next, where the recipe sends "
        "differences",
    ),
    honoured(
        "deadline_s",
        Number(0.1, 86400),
        60.0,
        "seconds without a sign of life of a rank until the run ends with an error",
    ),
    honoured("checksum", Boolean(), False, "messages carry a CRC-32C, which receivers check"),
    honoured(
        "shared_memory",
        Boolean(),
        True,
        "ranks of one host send each other messages through memory that they share, where the "
        "system lets them",
    ),
    honoured(
        "trace",
        Text(),
        None,
        "file for a timeline of all ranks, see [observing](observing.md); unset: none",
    ),
    honoured(
        "trace_steps",
        Text(),
        None,
        "steps in `trace`, e.g. `5..8`; unset: the third to the sixth",
    ),
    honoured(
        "units",
        ListOf(Text()),
        (),
        "modules that are gathered as a whole, by name or class; unset: repeated blocks",
    ),
)
