#!/usr/bin/env python3
"""Measures what a link really carries: plain sockets, all hosts sending at once.

Part of `bench/cluster.py --check`; as a script it is one end of one connection.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import result
from launch import Task

if TYPE_CHECKING:
    from cluster import Cluster

_PORT = 29400
_CHUNK = 256 * 1024
# An Ethernet frame of 1514 bytes carries 1448 of data (14 Ethernet, 20 IP, 32 TCP with time
# stamps), so 95.6 % of the rate is all that can arrive; 6 % more is for buckets and wake-ups.
_FLOOR = 0.90


def _receive(address: str) -> None:
    """Accepts one sender and prints how fast its bytes came, without the first half second."""
    with socket.create_server((address, _PORT)) as server:
        server.settimeout(30)
        connection, _ = server.accept()
    buffer = bytearray(_CHUNK)
    begin, counted = time.monotonic() + 0.5, 0
    last = begin
    with connection:
        while count := connection.recv_into(buffer):
            now = time.monotonic()
            if now >= begin:
                counted, last = counted + count, now
    print(json.dumps({"mbit": counted * 8 / 1e6 / max(last - begin, 1e-9)}))


def _send(address: str, seconds: float) -> None:
    """Sends to `address` for `seconds` after half a second of warm-up."""
    for _ in range(100):
        try:
            connection = socket.create_connection((address, _PORT), timeout=30)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    else:
        sys.exit(f"nobody listens on {address}:{_PORT}")
    data, end = bytes(_CHUNK), time.monotonic() + 0.5 + seconds
    with connection:
        while time.monotonic() < end:
            connection.sendall(data)


def check(cluster: Cluster, logs: Path, seconds: float) -> dict[str, Any]:
    """Every host sends to the next one; the result says what arrived, in Mbit/s."""
    me = [sys.executable, str(Path(__file__).resolve())]
    if cluster.kind != "emulated" or cluster.hosts < 2:
        sys.exit("a check needs two or more emulated hosts: there is no link otherwise")
    hosts = range(cluster.hosts)
    receivers = [Task(i, [*me, "receive", cluster.address(i)], {}) for i in hosts]
    senders = [
        Task(i, [*me, "send", cluster.address((i + 1) % cluster.hosts), str(seconds)], {})
        for i in hosts
    ]
    job = cluster.run([*receivers, *senders], seconds + 60, logs)
    if job.code != 0:
        sys.exit(job.failure())
    mbit = [float(json.loads(job.logs[i].read_text())["mbit"]) for i in hosts]
    shares = [value / cluster.mbit if cluster.mbit else None for value in mbit]
    print(f"all {cluster.hosts} hosts send at once for {seconds:g} s over plain sockets:")
    for i, (value, share) in enumerate(zip(mbit, shares, strict=True)):
        of_rate = "no limit" if share is None else f"{share:.1%} of {cluster.mbit:g} Mbit/s"
        print(f"  into host {(i + 1) % cluster.hosts}: {value:8.1f} Mbit/s goodput, {of_rate}")
    worst, best = (min(mbit), max(mbit))
    bars = []
    if cluster.mbit:
        bars = [
            result.at_least("goodput / rate, slowest host", worst / cluster.mbit, _FLOOR),
            result.at_most("goodput / rate, fastest host", best / cluster.mbit, 1.0),
        ]
    return result.make(
        "cluster", model=None, hosts=cluster.kind, kappa=None, bars=bars,
        mbit=cluster.mbit, goodput_mbit=[round(value, 1) for value in mbit],
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        _receive(sys.argv[2])
    else:
        _send(sys.argv[2], float(sys.argv[3]))
