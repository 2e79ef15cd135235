"""Runs a set of processes as one job: logs, one deadline, and none of them left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

# A rank that was told to stop saves a checkpoint first; after this it is killed.
_STOP_GRACE_S = 15.0
# Once one rank has failed, the others notice by themselves within their own deadline; this is
# for those that do not.
_FAILURE_GRACE_S = 20.0
TIMED_OUT = 124  # as timeout(1) says it


@dataclass(frozen=True)
class Task:
    """One process: where it runs, what, and what is added to the environment."""

    host: int
    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass
class JobResult:
    """How a job ended. `code` is 0, or the first exit status that was not."""

    code: int
    wall_s: float
    logs: list[Path]

    def failure(self, lines: int = 15) -> str:
        """The last lines of every log that has any, for an error message."""
        text = []
        for log in self.logs:
            tail = log.read_text(errors="replace").splitlines()[-lines:]
            if tail:
                text += [f"--- {log}", *tail]
        return "\n".join(text)


def rank_environment(
    rank: int, world: int, ranks_per_host: int, address: str, port: int, interface: str
) -> dict[str, str]:
    """The variables by which torchrun tells a process its place; thinwire and torch read them."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank % ranks_per_host),
        "LOCAL_WORLD_SIZE": str(ranks_per_host),
        "GROUP_RANK": str(rank // ranks_per_host),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": interface,
        # All ranks share this machine's cores, so each computes with one thread.
        "OMP_NUM_THREADS": "1",
    }


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_job(
    tasks: Sequence[Task],
    enter: Callable[[int, Sequence[str]], list[str]],
    log_directory: Path,
    timeout_s: float,
    stream: bool = False,
    poll: Callable[[], None] | None = None,
    poll_s: float = 0.02,
) -> JobResult:
    """Runs all tasks until they end; `enter(host, argv)` gives the command line on that host.

    Task 0 writes to our own output when `stream` is set, every other one to
    `log_directory`/task<i>.log. `poll` is called every `poll_s` seconds meanwhile, and once more
    at the end. On time-out, exception or signal every task is ended before this returns.
    """
    log_directory.mkdir(parents=True, exist_ok=True)
    logs = [log_directory / f"task{i}.log" for i in range(len(tasks))]
    running: list[subprocess.Popen[bytes]] = []
    started = time.monotonic()
    try:
        for i, task in enumerate(tasks):
            with logs[i].open("wb") as log:
                running.append(
                    subprocess.Popen(
                        enter(task.host, task.argv),
                        env={**os.environ, **task.env},
                        stdin=subprocess.DEVNULL,
                        stdout=None if stream and i == 0 else log,
                        stderr=None if stream and i == 0 else log,
                        start_new_session=True,
                    )
                )
        code = _wait(running, started + timeout_s, poll, poll_s)
    finally:
        _stop(running)
        if poll is not None:
            poll()
    return JobResult(code, time.monotonic() - started, logs)


def _wait(
    running: Sequence[subprocess.Popen[bytes]],
    end: float,
    poll: Callable[[], None] | None,
    poll_s: float,
) -> int:
    """Waits for all; returns the first exit status that was not 0, signals as 128 + number."""
    first_failure = 0
    while any(process.poll() is None for process in running):
        if time.monotonic() > end:
            return first_failure or TIMED_OUT
        if first_failure == 0:
            failed = [p.returncode for p in running if p.returncode not in (None, 0)]
            if failed:
                first_failure = failed[0] if failed[0] > 0 else 128 - failed[0]
                end = min(end, time.monotonic() + _FAILURE_GRACE_S)
        if poll is not None:
            poll()
        time.sleep(poll_s)
    codes = [p.returncode for p in running if p.returncode != 0]
    return first_failure or (0 if not codes else codes[0] if codes[0] > 0 else 128 - codes[0])


def _stop(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends what still runs: a request, a grace period, then force, each to the whole group."""
    alive = [process for process in running if process.poll() is None]
    for kind, grace_s in ((signal.SIGTERM, _STOP_GRACE_S), (signal.SIGKILL, _STOP_GRACE_S)):
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, kind)
        end = time.monotonic() + grace_s
        while alive and time.monotonic() < end:
            alive = [process for process in alive if process.poll() is None]
            time.sleep(0.01)


@contextlib.contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """SIGTERM and SIGHUP leave through `finally` blocks, as Ctrl-C does by itself."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
