"""What was sent over each hop, and how long it took."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hop:
    """One of the two hops of gathers or of reductions, on this rank."""

    name: str  # e.g. "slow gather"
    codec: str  # empty where the hop has one member only, and is none
    calls: int  # exchanges with all ranks of the hop that came to their end
    messages: int  # sent
    bytes: int  # sent, with headers and scales
    seconds: float  # in which the hop's thread waited for messages, coded or decoded

    @property
    def bandwidth(self):
        """Bytes sent per second of these."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class CommsSummary:
    """Of one rank, since its engine was made. Printed, it is a table."""

    rank: int
    steps: int
    hops: tuple[Hop, ...]
    control_bytes: int  # of small messages in which ranks agree
    predicted: tuple[Hop, ...]  # one step as the plan sees it; without times

    def __getitem__(self, name):
        """The hop of that name."""
        return next(hop for hop in self.hops if hop.name == name)

    def __str__(self):
        lines = [
            f"communication of rank {self.rank} in {self.steps} steps",
            f"  {'hop':<12} {'codec':<12} {'calls':>8} {'MiB':>10} {'seconds':>9} {'MiB/s':>8} "
            f"{'MiB/step':>9} {'by plan':>8}",
        ]
        for hop, predicted in zip(self.hops, self.predicted, strict=True):
            if not hop.codec:
                lines.append(f"  {hop.name:<12} none: it has one member")
                continue
            lines.append(
                f"  {hop.name:<12} {hop.codec:<12} {hop.calls:>8} {_mib(hop.bytes):>10.2f} "
                f"{hop.seconds:>9.3f} {_mib(hop.bandwidth):>8.1f} "
                f"{_mib(hop.bytes) / max(1, self.steps):>9.3f} {_mib(predicted.bytes):>8.3f}"
            )
        lines.append(f"  agreement {_mib(self.control_bytes):.2f} MiB")
        return "\n".join(lines)


def summary_of(session, rank, steps, passes):
    """The summary of a session after `steps` optimizer steps, of so many `passes` each."""
    return CommsSummary(
        rank=rank,
        steps=steps,
        hops=tuple(Hop(**hop) for hop in session.traffic),
        control_bytes=session.control_bytes,
        predicted=tuple(Hop(**hop) for hop in session.predicted_traffic(passes)),
    )


def _mib(value):
    return value / 2**20
