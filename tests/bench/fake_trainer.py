#!/usr/bin/env python3
"""Behaves as thinwire-train does towards the benchmarks, with numbers that a test can foretell.

Every step takes FAKE_STEP_S seconds and sends 10 datagrams of 1000 bytes from each host to the
next. FAKE_LOSS is the loss at the end ("null" for a NaN); FAKE_FAIL makes one rank fail.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

DATAGRAMS = 10
PAYLOAD, FORMULA, MESSAGES = 3.003, 3.0, 120


def send(host, hosts):
    """One step's traffic of a host; none where hosts have no addresses of their own."""
    if os.environ["MASTER_ADDR"].startswith("10.77.0."):
        with socket.socket(type=socket.SOCK_DGRAM) as out:
            for _ in range(DATAGRAMS):
                out.sendto(bytes(1000), (f"10.77.0.{(host + 1) % hosts + 1}", 9))


def train(config):
    rank, hosts = int(os.environ["RANK"]), config["parallel"]["hosts"]
    if os.environ.get("FAKE_FAIL") == str(rank):
        sys.exit(f"thinwire: rank {rank} was told to fail")
    output, steps = Path(config["output"]["directory"]), config["training"]["steps"]
    last = json.loads(os.environ.get("FAKE_LOSS", "2.5"))
    for step in range(1, steps + 1):
        time.sleep(float(os.environ.get("FAKE_STEP_S", "0.005")))
        if os.environ["LOCAL_RANK"] == "0":
            send(int(os.environ["GROUP_RANK"]), hosts)
        if rank == 0:
            line = {"step": step, "loss": 5.5}
            with (output / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
    if rank == 0:
        with (output / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": steps, "evaluation_loss": last}) + "\n")
        summary = {
            "formula_bytes_per_param": FORMULA,
            "slow_bytes_per_param": PAYLOAD,
            "predicted_bytes_per_param": FORMULA,
            "slow_messages_per_step": MESSAGES,
            "peak_memory_bytes": 100 << 20,
        }
        (output / "summary.json").write_text(json.dumps(summary))
        print(f"trained {config['parallel']['recipe']}")


if sys.argv[1] == "train":
    train(json.loads(Path(sys.argv[2]).read_text()))
else:
    print("def fake():\n    return 42")
