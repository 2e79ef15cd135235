"""Runs a function as W ranks: processes over loopback, with the variables that torchrun sets.

They are forked from a process that has imported torch, which takes longer than a whole test.
"""

import multiprocessing
import os
import traceback

import torch.distributed as dist

# As under torchrun, the store that ranks meet at is this process's: its port is never free in
# between, for another test to take it.
VARIABLES = {
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "LOCAL_WORLD_SIZE": "{world}",
    "LOCAL_RANK": "{rank}",
    "RANK": "{rank}",
    "WORLD_SIZE": "{world}",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "{port}",
    "GLOO_SOCKET_IFNAME": "lo",
}


def _rank(rank, world, port, sender, function, arguments):
    for name, value in VARIABLES.items():
        os.environ[name] = value.format(rank=rank, world=world, port=port)
    try:
        result = ("result", function(rank, world, *arguments))
    except BaseException:
        result = ("error", traceback.format_exc())
    sender.send(result)
    sender.close()
    if dist.is_initialized():
        dist.destroy_process_group()


def run(world, function, *arguments, timeout=90):
    """What function(rank, world, *arguments) returned on each rank.

    Raises AssertionError with the trace of every rank that failed, or if one takes longer.
    """
    fork = multiprocessing.get_context("fork")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ranks, receivers = [], []
    for rank in range(world):
        receiver, sender = fork.Pipe(duplex=False)
        receivers.append(receiver)
        ranks.append(
            fork.Process(target=_rank, args=(rank, world, store.port, sender, function, arguments))
        )
        ranks[-1].start()
        sender.close()
    try:
        results = [_receive(receiver, timeout) for receiver in receivers]
        for rank in ranks:
            rank.join(timeout)
    finally:
        for rank in ranks:
            rank.kill()
    failed = [f"--- rank {i}: {text}" for i, (kind, text) in enumerate(results) if kind != "result"]
    if failed:
        raise AssertionError("\n".join(failed))
    return [value for _, value in results]


def _receive(receiver, timeout):
    try:
        return receiver.recv() if receiver.poll(timeout) else ("error", "no result in time")
    except EOFError:
        return ("error", "the process ended without a result")
