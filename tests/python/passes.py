"""One rank: how long weights and gradients live, and passes that do not go as planned."""

import contextlib
import copy
import gc
import io
import os

import torch
from models import CASES, Block, Experts, Mixture, Transformer, batch
from parity import plain_step

import thinwire

CONFIG = {
    "train_micro_batch_size_per_gpu": 3,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "weight_decay": 0.0}},
}

SGD = {"optimizer": {"type": "SGD", "params": {"lr": 0.05}}}


def begin(config, build=Transformer, units=(Block,)):
    """(engine, the same model for torch, its optimizer)."""
    torch.manual_seed(11)
    model = build()
    plain = copy.deepcopy(model)
    engine, *_ = thinwire.initialize(model=model, config=CONFIG | config, units=units)
    return engine, plain, torch.optim.AdamW(plain.parameters(), lr=3e-3, weight_decay=0.0)


def train(engine, rank, step):
    loss = engine(batch(step, rank))
    engine.backward(loss)
    engine.step()
    return loss.item()


def stages(rank, world):
    """{stage: (sharded, plain) losses} in fp32."""
    pairs = {}
    for stage in range(4):
        build, units = CASES["recomputed" if stage == 2 else "units in units"]
        config = {"zero_optimization": {"stage": stage}}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            engine, plain, optimizer = begin(config, build, units)
        assert (f"stage {max(1, stage)}, " in engine.plan) == (stage < 3), engine.plan
        assert ("runs as stage 1" in printed.getvalue()) == (stage == 0 and rank == 0)
        pairs[stage] = [
            (train(engine, rank, step), plain_step(plain, optimizer, step, world)[rank])
            for step in range(4)
        ]
        engine.destroy()
    return pairs


def bits(rank, world):
    """{stage: losses and weights} in bf16, to be the same bits."""
    results = {}
    for stage in range(4):
        engine, *_ = begin({"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}})
        losses = [train(engine, rank, step) for step in range(4)]
        state = engine.state_dict(torch.float32)
        results[stage] = losses, {name: value.numpy().tobytes() for name, value in state.items()}
        engine.destroy()
    return results


class Failing:
    """Raises in a block's forward, or in backward at its output, when it is told to."""

    def __init__(self, block):
        self.where = None
        block.register_forward_hook(self._after)

    def _after(self, _, args, result):
        if self.where == "forward":
            raise KeyError("forward")
        if self.where == "backward":
            result[0].register_hook(self._raise)

    def _raise(self, _):
        raise KeyError("backward")

    def one(self, engine, rank, where):
        """A pass that fails; its exception, with all that hangs on it."""
        self.where = where
        try:
            engine.backward(engine(batch(99, rank)))
        except KeyError as error:
            return error
        finally:
            self.where = None


def interrupted(rank, world):
    """(sharded, plain) losses by stage; each step is tried again after passes that came to
    nothing, the first of them before there is a program to follow."""
    results = {}
    for stage in (1, 3):
        engine, plain, optimizer = begin({"zero_optimization": {"stage": stage}})
        failing = Failing(engine.module.blocks[1])
        pairs = results[stage] = []
        for step in range(3):
            kept = [failing.one(engine, rank, "forward")]
            engine(batch(99, rank))  # a loss that nobody keeps
            kept.append(failing.one(engine, rank, "backward"))
            if step == 1:
                loss = engine(batch(99, rank))
                assert engine.abandon() and not engine.abandon()
                try:
                    loss.backward()
                    kept.append(None)
                except RuntimeError as error:
                    kept.append(error)
            if step == 2:
                engine.state_dict()  # settles, too
            assert all(kept), kept
            expected = plain_step(plain, optimizer, step, world)[rank]
            pairs.append((train(engine, rank, step), expected))
        assert engine.micro_steps == engine.global_steps == 3
        engine.destroy()
    return results


def interrupted_between(rank, world):
    """The same within a step of two micro-batches. Returns losses, and counts of micro-batches."""
    engine, plain, optimizer = begin(
        {"gradient_accumulation_steps": 2, "zero_optimization": {"stage": 3}}
    )
    failing = Failing(engine.module.blocks[1])
    pairs, counts = [], []
    for step in range(3):
        train(engine, rank, 90)
        failing.one(engine, rank, "forward")
        engine.session.settle()
        counts.append(engine.micro_steps)
        engine.step()  # nothing: the pass that was to end the step is gone
        failing.one(engine, rank, "backward")  # when gradients of later blocks are summed already
        engine.session.settle()
        counts.append(engine.micro_steps)
        for micro in (2 * step, 2 * step + 1):
            losses = [plain(batch(micro, each)) for each in range(world)]
            (sum(losses) / (2 * world)).backward()
            pairs.append((train(engine, rank, micro), losses[rank].item()))
        optimizer.step()
        optimizer.zero_grad()
    engine.destroy()
    return pairs, counts


def served(rank, world):
    """Whether each of 3 + 2 r forwards of rank r gave plain torch's loss, and training goes on."""
    engine, plain, optimizer = begin({"zero_optimization": {"stage": 3}})
    pairs = []
    for step in range(3):
        if step == 1:
            expected = plain_step(plain, optimizer, step, world)[rank]
            pairs.append((train(engine, rank, step), expected))
        try:
            with engine.serving(), torch.no_grad():
                for each in range(3 + 2 * rank):
                    tokens = batch(50 + each, rank)
                    pairs.append((engine(tokens).item(), plain(tokens).item()))
                if step == 2 and rank == 0:
                    raise KeyError("of one rank")
        except KeyError:
            pass
    expected = plain_step(plain, optimizer, 2, world)[rank]
    pairs.append((train(engine, rank, 2), expected))
    engine.destroy()
    return pairs


def _step_of(engine, parts, how):
    """One step over micro-batches, whose last is said in one of three ways."""
    losses = []
    for index, part in enumerate(parts):
        last = index + 1 == len(parts)
        if how == "set":
            engine.set_gradient_accumulation_boundary(last)
        with engine.no_sync() if how == "no_sync" and not last else contextlib.nullcontext():
            loss = engine(part)
        assert engine.is_gradient_accumulation_boundary() == last
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def splits(rank, world):
    """{(micro-batches, how their last is said): losses and weights after three steps}."""
    results = {}
    for passes, how in ((1, ""), (2, ""), (2, "set"), (2, "no_sync"), (4, ""), (4, "no_sync")):
        # What the caller says goes before what the config says.
        said = passes if not how else 3 if how == "set" else 2
        engine, *_ = begin(
            {
                "train_micro_batch_size_per_gpu": 4 // passes,
                "gradient_accumulation_steps": said,
                **SGD,
                "gradient_clipping": 1.0,
                "zero_optimization": {"stage": 1 if passes == 4 else 3},
            }
        )
        rows = [torch.cat((batch(step, rank), batch(50 + step, rank)))[:4] for step in range(3)]
        losses = [_step_of(engine, row.split(4 // passes), how) for row in rows]
        assert engine.global_steps == 3 and engine.micro_steps == 3 * passes
        results[passes, how] = losses, engine.state_dict()
        engine.destroy()
    return {key: (losses, _whole(state)) for key, (losses, state) in results.items()}


def _whole(state):
    return {name: value.flatten().tolist() for name, value in state.items()}


def boundaries_refused(rank, world):
    """What is said where the end of a step comes too late, or where there is only one pass."""
    said = []
    engine, *_ = begin({"gradient_accumulation_steps": 2})
    loss = engine(batch(0, rank))
    for call in (
        lambda: engine.set_gradient_accumulation_boundary(True),
        lambda: engine.backward(loss),
        lambda: engine.set_gradient_accumulation_boundary(True),
        lambda: engine.step(),
    ):
        try:
            said.append(call() and "")
        except RuntimeError as error:
            said.append(str(error))
    engine.destroy()
    engine, *_ = begin({})
    try:
        with engine.no_sync():
            pass
    except RuntimeError as error:
        said.append(str(error))
    return [each for each in said if each]


def told(call):
    try:
        return f"nothing: {call()}"
    except RuntimeError as error:
        return str(error)


def wrong_calls(rank, world):
    """What is said to calls in a wrong order, and losses of plain torch around them."""
    engine, plain, optimizer = begin({"zero_optimization": {"stage": 3}})
    said, pairs = [told(engine.step)], []
    for step in range(2):
        expected = plain_step(plain, optimizer, step, world)[rank]
        loss = engine(batch(step, rank))
        engine.backward(loss)
        engine.step()
        pairs.append((loss.item(), expected))
        said.append(told(engine.optimizer.step))
    loss = engine(batch(0, rank))
    said += [told(lambda: engine.backward(None)), told(lambda: engine.backward(loss.repeat(2)))]
    said.append(told(engine.step))
    engine.backward(loss)
    # Who makes the wrong call ends the run for all, also for one that is not through its backward.
    torch.distributed.barrier()
    said.append(told(lambda: engine(batch(1, rank))))
    return said, pairs


def units_and_ends(rank, world):
    """What is said of units that the model does not have, and by an engine after its end."""
    linear = torch.nn.Sequential(torch.nn.Linear(3, 3))
    calls = [
        lambda: begin({}, Transformer, ("Block", "Blok")),
        lambda: begin({}, Transformer, (torch.nn.Conv2d,)),
    ]
    said = [told(call) for call in calls]
    engine, *_ = thinwire.initialize(model=linear, config=CONFIG, units="Linear")
    said.append(told(lambda: copy.deepcopy(engine)))
    said.append(told(lambda: copy.deepcopy(engine.module)))
    engine.destroy()
    engine.destroy()
    said.append(told(lambda: engine(torch.zeros(1, 3))))
    return [*said, told(engine.state_dict)]


def dropped(rank, world):
    """Threads of this process after engines that nobody destroyed."""
    counts = []
    for _ in range(3):
        engine, *_ = begin({})
        train(engine, rank, 0)
        del engine, _
        gc.collect()
        counts.append(len(os.listdir("/proc/self/task")))
    return counts


def routed(rank, world):
    """(sharded, plain) losses of experts that ranks choose differently, per choice of units; and
    how many kinds of routes there were."""
    pairs, routes = [], set()
    for units, stage in (((), 3), ((Experts,), 3), ((Experts,), 1)):
        config = SGD | {"zero_optimization": {"stage": stage}}
        engine, plain, _ = begin(config, Mixture, units)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
        for step in range(6):
            routes.add(tuple(int(batch(step, each).sum()) % 4 for each in range(world)))
            expected = plain_step(plain, optimizer, step, world)[rank]
            pairs.append((train(engine, rank, step), expected))
        engine.destroy()
    return pairs, len(routes)


def all_cases(rank, world):
    cases = (
        stages,
        bits,
        interrupted,
        interrupted_between,
        served,
        splits,
        boundaries_refused,
        wrong_calls,
        units_and_ends,
        dropped,
        routed,
    )
    return {case.__name__: case(rank, world) for case in cases}
