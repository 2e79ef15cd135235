"""One rank: what all ranks are to call together, called by rank 0 alone."""

import time

import torch
import torch.distributed as dist
from models import Mlp, batch

import thinwire

CONFIG = {
    "train_micro_batch_size_per_gpu": 3,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
    "zero_optimization": {"stage": 3},
}


def _enter(engine):
    with thinwire.full_params(engine.module):
        pass


# What error messages name, and the call.
CALLS = {
    "state_dict": lambda engine, _: engine.state_dict(),
    "state_dict of the module": lambda engine, _: engine.module.state_dict(),
    "full_params": lambda engine, _: _enter(engine),
    "load_state_dict": lambda engine, _: engine.load_state_dict({}),
    "save_checkpoint": lambda engine, directory: engine.save_checkpoint(directory),
    "save_16bit_model": lambda engine, directory: engine.save_16bit_model(directory),
    "load_checkpoint": lambda engine, directory: engine.load_checkpoint(directory),
    "optimizer step": lambda engine, _: engine.step(),
}


def _train(engine, rank, steps):
    for step in range(steps):
        loss = engine(batch(step, rank))
        engine.backward(loss)
        engine.step()


def _forward(engine, rank):
    _train(engine, rank, 2)


def _end(engine, rank):
    engine.destroy()


def _sleep(engine, rank):
    """Not to be ended by the test's own patience: what a later call says."""
    time.sleep(7)
    engine.state_dict()


SITUATIONS = {"forward": _forward, "end": _end, "sleep": _sleep}


def alone(rank, world, directory, cases):
    """{case: (what this rank was told, seconds)}."""
    results = {}
    for name, situation in cases:
        torch.manual_seed(1)
        config = CONFIG | {"thinwire": {"deadline_s": 1.0 if situation == "sleep" else 30.0}}
        engine, *_ = thinwire.initialize(model=Mlp(), config=config, units=["Linear"])
        _train(engine, rank, 3)
        if name == "optimizer step":
            engine.backward(engine(batch(0, rank)))
        start = time.monotonic()
        try:
            if rank == 0:
                CALLS[name](engine, directory)
            else:
                SITUATIONS[situation](engine, rank)
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        results[name, situation] = (said, time.monotonic() - start)
        dist.barrier()
    return results


def in_between(rank, world, directory):
    """Between forward and backward one rank asks for what all have to; they train on after."""
    engine, *_ = thinwire.initialize(model=Mlp(), config=CONFIG, units=["Linear"])
    _train(engine, rank, 3)
    said = []
    for call in CALLS.values():
        loss = engine(batch(0, rank))
        if rank == 0:
            try:
                call(engine, directory)
                said.append("nothing")
            except RuntimeError as error:
                said.append(str(error))
        engine.backward(loss)
        engine.step()
    return said
