"""One rank of what a run tells of itself: ranges of hops, sums of traffic, lines, memory."""

import contextlib
import gc
import io
from collections import Counter

import torch
import torch.profiler
from models import BATCH, LENGTH, VOCABULARY, Mlp, Transformer, batch
from torch import nn

import thinwire

STEPS = 4
_UNITS = ["Block", "twice"]


def config_of(recipe, world, slow, **more):
    """All ranks on one host, or each on its own."""
    hosts, ranks = (world, 1) if slow else (1, world)
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": 3},
        "thinwire": {"recipe": recipe, "hosts": hosts, "ranks_per_host": ranks, "prefetch": 0},
        **more,
    }


def _step(engine, step, rank):
    loss = engine(batch(step, rank))
    engine.backward(loss)
    engine.step()


def _engine(config, model=Transformer, units=_UNITS):
    torch.manual_seed(7)
    engine, *_ = thinwire.initialize(model=model(), config=config, units=units)
    return engine


def ranges(rank, world, recipe, slow):
    """(names, backward) of the ranges in STEPS steps: how often each is there, and those of hops
    that ended during the backward of a step; and how often each should be there."""
    engine = _engine(config_of(recipe, world, slow))
    _step(engine, 0, rank)
    engine.session.read_owned([])  # waits for pushes
    before = {hop.name: hop for hop in engine.comms_summary().hops}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for step in range(STEPS):
            loss = engine(batch(step, rank))
            with torch.profiler.record_function("backward of the test"):
                engine.backward(loss)
            engine.step()
            engine.session.read_owned([])
        with torch.no_grad():  # pushes of the last step are entered here
            engine(batch(0, rank))
    after = {hop.name: hop for hop in engine.comms_summary().hops}
    events = profiler.events()
    found = [event for event in events if event.name.startswith("thinwire::")]
    around = [e.time_range for e in events if e.name == "backward of the test"]
    inside = [
        event.name
        for event in found
        if any(
            each.start <= event.time_range.start and event.time_range.end <= each.end
            for each in around
        )
    ]
    calls = {name: after[name].calls - before[name].calls for name in after}
    own_threads = {event.thread for event in found}.isdisjoint(
        event.thread for event in events if event.name == "backward of the test"
    )
    engine.destroy()
    return Counter(event.name for event in found), Counter(inside), calls, own_threads


def traffic(rank, world, recipe, slow, micro_batches):
    """(bytes by hop of STEPS steps, what the plan says of as many, the summary as text)."""
    # A chain of units, each used once: the pass that the plan has in mind.
    engine = _engine(
        config_of(recipe, world, slow, gradient_accumulation_steps=micro_batches),
        Mlp,
        ["Linear", "Embedding"],
    )

    def step(number):
        for micro in range(micro_batches):
            loss = engine(batch(10 * number + micro, rank))
            engine.backward(loss)
            engine.step()

    def sent():
        engine.session.read_owned([])  # waits for pushes
        return {hop.name: hop.bytes for hop in engine.comms_summary().hops}

    step(0)
    before = sent()
    for number in range(STEPS):
        step(number)
    after = sent()
    predicted = {hop.name: STEPS * hop.bytes for hop in engine.comms_summary().predicted}
    text = str(engine.comms_summary())
    engine.destroy()
    return {name: after[name] - before[name] for name in after}, predicted, text


def choice(rank, world):
    """What is printed in 18 steps with a recipe that is chosen."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        config = config_of("auto", world, True)
        config["thinwire"] |= {"review_steps": 3, "loss_budget": 0}
        engine = _engine(config)
        for step in range(18):
            _step(engine, step, rank)
        engine.destroy()
    return out.getvalue()


def lines(rank, world):
    """What is printed in six steps."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        engine = _engine(
            config_of(
                "zero3",
                world,
                slow=False,
                steps_per_print=3,
                wall_clock_breakdown=True,
                comms_logger={"enabled": True},
            )
        )
        for step in range(6):
            _step(engine, step, rank)
        engine.destroy()
    return out.getvalue()


def timelines(rank, world, folder):
    """What is printed while `folder` gets traces of steps 3 and 4, and of two more."""
    out = io.StringIO()
    config = config_of("zero++", world, slow=True)
    config["thinwire"] |= {"trace": f"{folder}/config.json", "trace_steps": "3..4"}
    with contextlib.redirect_stdout(out):
        engine = _engine(config)
        for step in range(4):
            _step(engine, step, rank)
        with engine.trace(f"{folder}/call.json"):
            for step in range(4, 6):
                _step(engine, step, rank)
        try:
            with engine.trace(f"{folder}/is/not/there.json"):
                raise AssertionError
        except (OSError, thinwire.native._native.UsageError) as error:
            refused = str(error)
        engine.destroy()
    return out.getvalue(), refused


class Wide(nn.Module):
    """4.2 million parameters in four blocks, which compute next to nothing."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 256)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 256)) for _ in range(4)
        )

    def forward(self, tokens):
        x = self.embed(tokens[:, :LENGTH])
        for block in self.blocks:
            x = x + block(x)
        return x.square().mean()


def _resident_bytes(key="VmRSS"):
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(key))


def memory(rank, world, cases):
    """{case: (estimated, when built, at most in training)} bytes of this rank, for the settings of
    each case. Torch's gradients and activations, which are small here, are in the last."""
    Wide().bfloat16()(batch(0, rank)).backward()  # libraries come into memory
    _engine(config_of("zero3", world, slow=False)).destroy()
    results = {}
    for name, (recipe, slow, more) in cases.items():
        config = config_of(recipe, world, slow, bf16={"enabled": True}, **more)
        with torch.device("meta"):
            topology = {key: config["thinwire"][key] for key in ("hosts", "ranks_per_host")}
            estimate = thinwire.estimate_memory(Wide(), config, **topology)
        model = Wide()
        weights = sum(4 * p.numel() for p in model.parameters())
        gc.collect()
        before = _resident_bytes()
        engine, *_ = thinwire.initialize(model=model, config=config)
        measured = _resident_bytes() - before + weights  # those are gone
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")  # VmHWM starts again from here
        for step in range(3):
            _step(engine, step, rank)
        trained = _resident_bytes("VmHWM") - before + weights
        results[name] = estimate.per_rank, measured, trained
        engine.destroy()
        del engine, model
    return results
