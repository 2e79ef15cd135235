"""Network namespaces that go away by themselves.

A namespace lives as long as a process is in it. Each one here is held by a `cat` that waits on a
pipe from us: when we leave, however we leave, the pipe closes, the `cat` ends and the kernel
removes the namespace with every interface, bridge and queue in it. Nothing has a name in the
machine's own namespace, so nothing can be left behind and nothing foreign can be touched.

Works as root, and as an ordinary user where the kernel lets users make namespaces of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

_TOOLS = ("unshare", "nsenter", "setpriv", "ip", "tc")


def _search_path() -> str:
    """PATH, and where ip and tc are on systems that keep them off a user's PATH."""
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


class NamespaceError(RuntimeError):
    """The machine does not let us make or shape networks of our own; says which step failed."""


class Namespace:
    """One network namespace. Make children with `Namespace(parent)`: they share its owner."""

    def __init__(self, parent: Namespace | None = None) -> None:
        for tool in _TOOLS:
            if shutil.which(tool, path=_search_path()) is None:
                raise NamespaceError(f"{tool} is not installed (packages iproute2 and util-linux)")
        hold = ["unshare", "--net", "sh", "-c", "echo held; exec cat"]
        # An ordinary user becomes root of a user namespace, and with it of our networks only.
        self._own_user: bool = parent._own_user if parent else os.geteuid() != 0
        if parent is not None:
            hold = parent.enter(hold)
        elif self._own_user:
            hold[1:1] = ["--user", "--map-root-user"]
        # A session of its own, so that Ctrl-C at the terminal ends the ranks before their network.
        self._holder = subprocess.Popen(
            hold,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "held\n":
            _, errors = self._holder.communicate()
            raise NamespaceError(f"cannot make a network namespace: {errors.strip()}")

    @property
    def pid(self) -> int:
        """A process inside, by which `ip link ... netns PID` and /proc/PID/net find it."""
        return self._holder.pid

    def enter(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` inside. It dies with us, even if we are killed."""
        user = ["--user", "--preserve-credentials"] if self._own_user else []
        inside = ["nsenter", "--target", str(self.pid), *user, "--net", "--"]
        return [*inside, "setpriv", "--pdeathsig", "KILL", "--", *argv]

    def run(self, command: str) -> str:
        """Runs one configuration command (no quoting) inside and returns what it printed."""
        done = subprocess.run(
            self.enter(command.split()),
            env={**os.environ, "PATH": _search_path()},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NamespaceError(f"`{command}` failed: {done.stderr.strip()}")
        return done.stdout

    def sent_bytes(self, interface: str) -> int:
        """What `interface` has sent so far, headers included, as the kernel counts it."""
        with open(f"/proc/{self.pid}/net/dev", encoding="ascii") as table:
            for line in table:
                name, _, counters = line.partition(":")
                if name.strip() == interface:
                    return int(counters.split()[8])
        raise NamespaceError(f"no interface {interface} in the namespace of process {self.pid}")

    def close(self) -> None:
        """Lets go. Processes that are still inside must have been ended before."""
        self._holder.communicate()
