"""What thinwire.fsdp.compress did, and what went over the slow hop since."""

from dataclasses import dataclass, field


@dataclass
class Group:
    """What becomes of one parameter group of FSDP2, and what went over the slow hop for it."""

    name: str
    elements: int  # of all ranks, with the padding that FSDP2 adds
    topology: str = "1 x 1"
    gather: str = "by FSDP2"  # or the format on both hops; "raw" for elements as they are
    reduce: str = "by FSDP2"  # or the formats of the fast and the slow hop
    gather_bytes: int = 0  # of one gather, from this rank to the slow hop
    reduce_bytes: int = 0
    notes: list = field(default_factory=list)  # what cannot be compressed, and why
    sent: int = 0  # since compress() or reset()

    def __str__(self):
        text = f"{self.name}: {self.elements:,} elements over {self.topology} ranks, gather "
        text += f"{self.gather}, reduce {self.reduce}; slow hop {self.gather_bytes:,} bytes per "
        text += f"gather, {self.reduce_bytes:,} per reduce"
        return "\n    ".join([text, *self.notes])

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)


@dataclass
class Report:
    """What compress() did. Print it to see each group, what stays as it was, and why."""

    recipe: str
    origin: str  # of the number of ranks per host
    groups: list[Group] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def bytes(self):
        """Payload that this rank gave to the slow hop since compress() or the last reset().

        Groups that FSDP2 itself gathers or reduces ("by FSDP2") are not in it.
        """
        return sum(group.sent for group in self.groups)

    def reset(self):
        for group in self.groups:
            group.sent = 0

    def __str__(self):
        head = f"thinwire.fsdp: {self.recipe}, {self.origin}"
        return "\n  ".join([head, *self.notes, *map(str, self.groups)])


def names(types):
    return ", ".join(sorted(str(each).removeprefix("torch.") for each in types))
