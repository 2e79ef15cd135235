#!/usr/bin/env python3
"""An emulated cluster on one machine: hosts joined by links of a given rate.

Each host is a network namespace with one interface, eth0 (10.77.0.1, 10.77.0.2, ...), on a common
switch; a token bucket limits what it sends. Ranks of one host talk over that host's loopback, at
full speed. Where the machine does not permit this, the same ranks run as plain processes on
"logical" hosts: nothing is slow then, and bytes on the wire cannot be counted.

  python3 bench/cluster.py --mbit 200 -- build/dev/apps/thinwire-train train config.json
  python3 bench/cluster.py --mbit 200 --check      # does the link carry what it promises?
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import goodput
import result
from launch import JobResult, Task, free_port, rank_environment, run_job, signals_as_exceptions
from namespaces import Namespace, NamespaceError

_INTERFACE = "eth0"
_PORT = 29500  # in namespaces of our own every port is free


class Cluster:
    """Hosts to run processes on. A context manager; leaving it ends whatever runs there."""

    kind = ""  # "emulated" or "logical"
    interface = ""

    def __init__(self, hosts: int, mbit: float) -> None:
        if hosts < 1 or mbit < 0:
            raise ValueError(f"expected hosts >= 1 and mbit >= 0, got {hosts} and {mbit}")
        self.hosts = hosts
        self.mbit = mbit
        self._exit = ExitStack()

    def __enter__(self) -> Cluster:
        with ExitStack() as guard:
            self._exit = guard
            guard.enter_context(signals_as_exceptions())
            self._build()
            self._exit = guard.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def _build(self) -> None:
        """Makes the hosts and registers in `_exit` how to remove them."""

    def describe(self) -> str:
        """How the hosts are joined, for people."""
        raise NotImplementedError

    def address(self, host: int) -> str:
        """Where processes of other hosts reach `host`."""
        raise NotImplementedError

    def port(self) -> int:
        """A port of host 0 for the rendezvous of one job."""
        raise NotImplementedError

    def enter(self, host: int, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` on `host`."""
        raise NotImplementedError

    def wire_bytes(self) -> list[int] | None:
        """What each host has sent to the others so far; None where that cannot be counted.

        Cheap (one small read per host), so a caller may poll it to cut a run into windows.
        """
        raise NotImplementedError

    def rank_tasks(
        self, argv: Sequence[str], ranks_per_host: int, env: Mapping[str, str] | None = None
    ) -> list[Task]:
        """`argv` once per rank, told its place as torchrun would; rank 0 is on host 0."""
        world, port = self.hosts * ranks_per_host, self.port()
        return [
            Task(
                rank // ranks_per_host,
                argv,
                rank_environment(rank, world, ranks_per_host, self.address(0), port, self.interface)
                | dict(env or {}),
            )
            for rank in range(world)
        ]

    def run(
        self,
        tasks: Sequence[Task],
        timeout_s: float,
        log_directory: Path,
        stream: bool = False,
        poll: Callable[[], None] | None = None,
    ) -> JobResult:
        """Runs the tasks to their end; see launch.run_job."""
        return run_job(tasks, self.enter, log_directory, timeout_s, stream, poll)


class EmulatedCluster(Cluster):
    """Hosts as network namespaces. Raises NamespaceError where that is not permitted."""

    kind = "emulated"
    interface = _INTERFACE

    def _build(self) -> None:
        switch = self._namespace(None)
        switch.run("ip link add switch0 type bridge")
        switch.run("ip link set switch0 up")
        self._host: list[Namespace] = []
        for i in range(self.hosts):
            host = self._namespace(switch)
            switch.run(f"ip link add port{i} type veth peer name {_INTERFACE} netns {host.pid}")
            switch.run(f"ip link set port{i} master switch0 up")
            host.run("ip link set lo up")
            host.run(f"ip addr add {self.address(i)}/16 dev {_INTERFACE}")
            host.run(f"ip link set {_INTERFACE} up")
            self._shape(host, _INTERFACE)
            if self.hosts > 2:
                # Two hosts that send to a third would otherwise reach it at twice the rate.
                self._shape(switch, f"port{i}")
            self._host.append(host)

    def _namespace(self, parent: Namespace | None) -> Namespace:
        made = Namespace(parent)
        self._exit.callback(made.close)
        return made

    def _shape(self, namespace: Namespace, interface: str) -> None:
        """Limits what `interface` sends to the rate of the link."""
        if not self.mbit:
            return
        # burst: what may leave at once. A bucket smaller than one segmentation-offload packet
        # (64 KiB and headers) would cut every one of them in software; 4 ms of the rate rides
        # over a sender that wakes up late because the ranks keep all cores busy.
        burst = max(int(self.mbit * 1e6 / 8 * 0.004), 68_000)
        # latency: the longest a packet waits in the queue before it is dropped. 50 ms holds the
        # bandwidth-delay product many times over, and keeps small control messages from waiting
        # long behind bulk data.
        namespace.run(
            f"tc qdisc add dev {interface} root tbf rate {int(self.mbit * 1e6)}bit "
            f"burst {burst} latency 50ms"
        )

    def describe(self) -> str:
        rate = f"{self.mbit:g} Mbit/s each way" if self.mbit else "no limit"
        return f"links of {rate}, emulated by network namespaces and token buckets"

    def address(self, host: int) -> str:
        return f"10.77.{(host + 1) // 256}.{(host + 1) % 256}"

    def port(self) -> int:
        return _PORT

    def enter(self, host: int, argv: Sequence[str]) -> list[str]:
        return self._host[host].enter(argv)

    def wire_bytes(self) -> list[int] | None:
        return [host.sent_bytes(_INTERFACE) for host in self._host]


class LogicalCluster(Cluster):
    """The same ranks as plain processes of this machine, joined by its loopback."""

    kind = "logical"
    interface = "lo"

    def describe(self) -> str:
        return "hosts are logical: loopback in place of links, no limit"

    def address(self, host: int) -> str:
        return "127.0.0.1"

    def port(self) -> int:
        return free_port()

    def enter(self, host: int, argv: Sequence[str]) -> list[str]:
        return ["setpriv", "--pdeathsig", "KILL", "--", *argv]

    def wire_bytes(self) -> list[int] | None:
        return None


def why_not_permitted() -> str:
    """Empty if emulated hosts work here, else the reason; tries it out and removes the trial."""
    try:
        with EmulatedCluster(1, 100):
            return ""
    except NamespaceError as error:
        return str(error)


def best_cluster(hosts: int, mbit: float) -> Cluster:
    """Emulated hosts where they are permitted, else logical ones, said on stderr."""
    reason = why_not_permitted()
    if not reason:
        return EmulatedCluster(hosts, mbit)
    print(
        f"emulated hosts are not permitted here ({reason}): "
        "hosts are logical, links are not limited and wire bytes are not counted",
        file=sys.stderr,
    )
    return LogicalCluster(hosts, 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2, help="ranks per host")
    parser.add_argument("--mbit", type=float, default=200, help="Mbit/s a host sends; 0: no limit")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds")
    parser.add_argument("--check", action="store_true", help="measure the links and nothing else")
    parser.add_argument("--quick", action="store_true", help="a shorter check")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- command of each rank")
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if bool(command) == args.check:
        parser.error("give either --check or -- and a command")
    with tempfile.TemporaryDirectory() as logs, best_cluster(args.hosts, args.mbit) as cluster:
        if args.check:
            result.finish(goodput.check(cluster, Path(logs), 1.0 if args.quick else 4.0))
            return 0
        before = cluster.wire_bytes()
        job = cluster.run(
            cluster.rank_tasks(command, args.ranks), args.timeout, Path(logs), stream=True
        )
        if job.code != 0:
            print(job.failure(), file=sys.stderr)
        sent = [b - a for a, b in zip(before or [], cluster.wire_bytes() or [], strict=True)]
        print(f"{job.wall_s:.1f} s on {cluster.kind} hosts; each sent {sent or 'uncounted'} bytes")
        return job.code


if __name__ == "__main__":
    sys.exit(main())
