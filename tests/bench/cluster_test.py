#!/usr/bin/env python3
"""Tests of the emulated cluster: what it makes, what it counts, and that nothing stays behind."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from cluster import EmulatedCluster, LogicalCluster, best_cluster, why_not_permitted  # noqa: E402
from launch import TIMED_OUT, Task  # noqa: E402

REASON = why_not_permitted()
emulated = unittest.skipIf(REASON, f"emulated hosts are not permitted here: {REASON}")

# Sends one datagram of 1000 bytes to an address, over the interface that reaches it.
SEND = "import socket,sys; socket.socket(2, 2).sendto(bytes(1000), (sys.argv[1], 9))"


def alive(pid):
    """Whether a process is there and not merely waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.logs = Path(folder.name)


class LogicalTest(Logs):
    def test_ranks_are_told_their_place(self):
        with LogicalCluster(2, 0) as cluster:
            names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK X"
            program = "import os, sys; print(*[os.environ[name] for name in sys.argv[1:]])"
            argv = [sys.executable, "-c", program, *names.split()]
            tasks = cluster.rank_tasks(argv, 2, {"X": "y"})
            job = cluster.run(tasks, 30, self.logs)
            self.assertIsNone(cluster.wire_bytes())
        self.assertEqual(job.code, 0, job.failure())
        printed = [log.read_text().strip() for log in job.logs]
        self.assertEqual(printed, ["0 4 0 2 0 y", "1 4 1 2 0 y", "2 4 0 2 1 y", "3 4 1 2 1 y"])

    def test_first_failure_is_the_code_and_its_log_is_shown(self):
        with LogicalCluster(1, 0) as cluster:
            tasks = [
                Task(0, ["sh", "-c", "echo fine"], {}),
                Task(0, ["sh", "-c", "echo bad; exit 3"], {}),
            ]
            job = cluster.run(tasks, 30, self.logs)
        self.assertEqual(job.code, 3)
        self.assertIn("bad", job.failure())

    def test_deadline_ends_a_whole_process_group(self):
        with LogicalCluster(1, 0) as cluster:
            # The task starts a process of its own, and both must be gone.
            job = cluster.run(
                [Task(0, ["sh", "-c", "sleep 60 & echo $!; wait"], {})], 0.5, self.logs
            )
        self.assertEqual(job.code, TIMED_OUT)
        self.assertLess(job.wall_s, 10)
        child = int(job.logs[0].read_text())
        self.assertTrue(wait_until(lambda: not alive(child)))

    def test_poll_sees_the_run_and_its_end(self):
        calls = []
        with LogicalCluster(1, 0) as cluster:
            cluster.run(
                [Task(0, ["sleep", "0.3"], {})], 30, self.logs, poll=lambda: calls.append(1)
            )
        self.assertGreater(len(calls), 3)


@emulated
class EmulatedTest(Logs):
    def test_bytes_are_counted_per_host(self):
        with EmulatedCluster(2, 100) as cluster:
            before = cluster.wire_bytes()
            send = [sys.executable, "-c", SEND, cluster.address(1)]
            job = cluster.run([Task(0, send, {})] * 5, 30, self.logs)
            sent = [b - a for a, b in zip(before, cluster.wire_bytes(), strict=True)]
        self.assertEqual(job.code, 0, job.failure())
        # 1000 bytes of data, 8 UDP, 20 IP, 14 Ethernet; address resolution takes a few more.
        self.assertGreaterEqual(sent[0], 5 * 1042)
        self.assertLess(sent[0], 5 * 1042 + 500)
        # Host 1 answers each that nobody listens there, which takes at most 590 bytes.
        self.assertLess(sent[1], 5 * 590 + 500)

    def test_ranks_of_one_host_do_not_use_the_link(self):
        with EmulatedCluster(2, 100) as cluster:
            before = cluster.wire_bytes()[0]
            send = [sys.executable, "-c", SEND, cluster.address(0)]
            self.assertEqual(cluster.run([Task(0, send, {})] * 5, 30, self.logs).code, 0)
            self.assertLess(cluster.wire_bytes()[0] - before, 500)

    def test_links_keep_their_rate(self):
        # 20 Mbit/s and 10 MB in all would take 4 s; one second is enough to see the limit.
        check = [sys.executable, str(BENCH / "cluster.py"), "--check", "--quick", "--mbit", "20"]
        done = subprocess.run(check, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"name": "goodput / rate, fastest host"', done.stdout)
        self.assertNotIn("fastest host: DOES NOT HOLD", done.stdout)

    def test_an_exception_ends_ranks_and_hosts(self):
        class Stop(Exception):
            pass

        def poll():
            pids = self.logs / "task0.log"
            if pids.exists() and pids.read_text():
                raise Stop

        with self.assertRaises(Stop), EmulatedCluster(2, 100) as cluster:
            holders = [host.pid for host in cluster._host]
            job = [Task(1, ["sh", "-c", "echo $$; exec sleep 60"], {})]
            cluster.run(job, 30, self.logs, poll=poll)
        rank = int((self.logs / "task0.log").read_text())
        self.assertTrue(wait_until(lambda: not any(map(alive, [rank, *holders]))))

    def test_killed_harness_leaves_nothing(self):
        program = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path\n"
            "from cluster import EmulatedCluster\n"
            "from launch import Task\n"
            "with EmulatedCluster(2, 100) as c:\n"
            "    print(*[h.pid for h in c._host], flush=True)\n"
            "    c.run([Task(1, ['sh', '-c', 'echo $$; exec sleep 60'], {})], 30,"
            " Path(sys.argv[2]))\n"
        )
        for kind in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(kind.name):
                log = self.logs / "task0.log"
                log.unlink(missing_ok=True)
                harness = subprocess.Popen(
                    [sys.executable, "-c", program, str(BENCH), str(self.logs)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                pids = [int(pid) for pid in harness.stdout.readline().split()]
                self.assertTrue(wait_until(lambda log=log: log.exists() and log.read_text()))
                pids.append(int(log.read_text()))
                os.kill(harness.pid, kind)
                harness.communicate(timeout=20)
                self.assertTrue(wait_until(lambda pids=pids: not any(map(alive, pids))))

    def test_the_machine_keeps_its_own_interfaces(self):
        before = sorted(os.listdir("/sys/class/net"))
        with EmulatedCluster(3, 100):
            self.assertEqual(sorted(os.listdir("/sys/class/net")), before)


class FallbackTest(Logs):
    def test_says_so_when_hosts_are_logical(self):
        said = io.StringIO()
        path = os.environ["PATH"]
        os.environ["PATH"] = str(self.logs)  # no unshare there
        try:
            with contextlib.redirect_stderr(said):
                chosen = best_cluster(2, 200)
        finally:
            os.environ["PATH"] = path
        self.assertEqual(chosen.kind, "logical")
        self.assertIn("links are not limited and wire bytes are not counted", said.getvalue())


if __name__ == "__main__":
    unittest.main()
