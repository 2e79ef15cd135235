"""How the ranks of an engine reach each other: groups of torch.distributed that are its own."""

import atexit
import datetime
import itertools
import os

import torch.distributed as dist

from thinwire.native import _native

_numbers = itertools.count()  # of engines in this process: keys in the store are theirs alone


class Groups:
    """`links` for the engine, and the group `everyone` for what Python collects; None for a world
    of one."""

    def __init__(self, deadline, shared_memory, ranks_per_host):
        _join()
        self.rank = 0
        self.everyone = None
        self._own = []
        if not dist.is_initialized() or dist.get_world_size() == 1:
            self.links = _native.GroupLinks()
            return
        self.rank = dist.get_rank()
        patience = datetime.timedelta(seconds=deadline.total_seconds())
        self._own = [dist.new_group(backend="gloo", timeout=patience) for _ in range(3)]
        bulk, control, self.everyone = self._own
        store = dist.PrefixStore(
            f"thinwire/{next(_numbers)}", dist.distributed_c10d._get_default_store()
        )
        self.links = _native.GroupLinks(
            bulk=bulk.group_name,
            control=control.group_name,
            store=store,
            deadline=deadline,
            shared_memory=shared_memory,
            ranks_per_host=ranks_per_host or 0,
        )

    def close(self):
        """Ends their threads, when the engine is gone. One that still ran while Python ends could
        abort the process: it gives up the tensors of its last collective late."""
        for group in self._own:
            if dist.is_initialized():
                dist.destroy_process_group(group)
        self._own.clear()
        self.links = self.everyone = None


def _join():
    """Joins the ranks of the launch where the script has not."""
    if dist.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return
    dist.init_process_group("gloo")
    atexit.register(_leave)


def _leave():
    if dist.is_initialized():
        dist.destroy_process_group()
