"""Gather and reduce in two hops over torch's process groups, with a format of messages on each.

The slow hop joins the ranks with one local index on all hosts (the peer group), the fast hop the
ranks of a host. What is gathered and reduced has one chunk per rank, in rank order.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist

from thinwire import native  # noqa: F401  registers torch.ops.thinwire

ops = torch.ops.thinwire

# The formats that send elements as they are.
RAW = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclass(frozen=True)
class Places:
    """Where the ranks of a process group run: at[host][local] is the index of one of them."""

    at: tuple[tuple[int, ...], ...]
    note: str = ""

    @property
    def hosts(self):
        return len(self.at)

    @property
    def ranks_per_host(self):
        return len(self.at[0])

    def __str__(self):
        return f"{self.hosts} x {self.ranks_per_host}"


def places(ranks, ranks_per_host):
    """Of the global `ranks`, `ranks_per_host` consecutive ones share a host."""
    hosts = {}
    for rank in sorted(ranks):
        hosts.setdefault(rank // ranks_per_host, []).append(ranks.index(rank))
    sizes = {len(host) for host in hosts.values()}
    if len(sizes) == 1:
        return Places(tuple(map(tuple, hosts.values())))
    note = f"hosts with {min(sizes)} to {max(sizes)} of its ranks: each rank counts as a host"
    return Places(tuple((ranks.index(rank),) for rank in sorted(ranks)), note)


class TwoHop:
    """Both hops of one process group that spans several hosts; every rank of it makes one."""

    def __init__(self, ranks, where):
        """`ranks` are the group's, by their global numbers; `where` are their places."""
        mine = ranks.index(dist.get_rank())
        self._at = where.at
        self._host = next(n for n, row in enumerate(self._at) if mine in row)
        self._local = self._at[self._host].index(mine)
        # The members alone make these groups, in the same order on each of them: host, then peers.
        # Their order, ascending, is that of the places.
        self._fast = self._slow = None
        if where.ranks_per_host > 1:
            self._fast = _group([ranks[i] for i in self._at[self._host]], "thinwire_fast_hop")
        if where.hosts > 1:
            self._slow = _group([ranks[row[self._local]] for row in self._at], "thinwire_slow_hop")

    @property
    def world(self):
        return len(self._at) * len(self._at[0])

    def gather(self, output, chunk, form):
        """Fills `output` with the chunks of all ranks; returns the bytes given to the slow hop.

        `form` is a format, or None for the bytes as they are. The fast hop passes on the messages
        of the slow one, and a rank reads its own chunk from its own message, so all ranks hold the
        same bits.
        """
        message = (
            chunk.contiguous().view(torch.uint8) if form is None else ops.quantize(chunk, form)
        )
        size = message.numel()
        messages = _all_gather(_all_gather(message, self._slow), self._fast)
        messages = messages.view(len(self._at[0]), len(self._at), size)
        chunks = output.view(self.world, -1)
        for host, row in enumerate(self._at):
            for local, index in enumerate(row):
                if form is None:
                    chunks[index].view(torch.uint8).copy_(messages[local, host])
                else:
                    ops.dequantize_into(messages[local, host], form, chunks[index])
        return size * (len(self._at) - 1)

    def reduce(self, chunks, fast_form, slow_form):
        """The sum of all ranks' values of this rank's chunk, in fp32; the bytes to the slow hop.

        The ranks of a host add up first, in their order, then the hosts in theirs. What a rank has
        itself enters a sum as it is.
        """
        chunks = chunks.view(self.world, -1)
        size = chunks.size(1)
        by_local = [
            torch.cat([chunks[row[local]] for row in self._at]) for local in range(len(self._at[0]))
        ]
        partial = by_local[self._local]
        if self._fast is not None:
            terms = _exchange(by_local, self._local, fast_form, self._fast)
            partial = ops.dequantize_sum(terms, partial.numel(), fast_form)
        terms = _exchange(partial.split(size), self._host, slow_form, self._slow)
        sent = sum(term.numel() for n, term in enumerate(terms) if n != self._host)
        return ops.dequantize_sum(terms, size, slow_form), sent


def _group(ranks, description):
    return dist.new_group(ranks, use_local_synchronization=True, group_desc=description)


def _all_gather(message, group):
    if group is None:
        return message
    gathered = message.new_empty(message.numel() * group.size())
    dist.all_gather_single(gathered, message.flatten(), group=group)
    return gathered


def _exchange(parts, mine, form, group):
    """What the members sent of part `mine`, as messages; the own part takes its place as it is."""
    messages = [ops.quantize(part, form) for i, part in enumerate(parts) if i != mine]
    sizes = [0 if i == mine else messages[0].numel() for i in range(len(parts))]
    sent = torch.cat(messages)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, sizes, sizes, group=group)
    terms = list(received.split(sizes))
    terms[mine] = parts[mine]
    return terms
