"""Where each parameter of a model lives in the engine, and its way out and back in as a whole."""

import torch
import torch.distributed as dist

from thinwire.native import _native


class Shards:
    """`group`: of all ranks, for what is collected here; None for a world of one."""

    def __init__(self, session, units, group):
        self._session = session
        self._group = group
        self._place = {}
        self._lent = {}  # parameter: its values
        for u, unit in enumerate(units):
            for p, (name, parameter) in enumerate(unit.parameters.items()):
                self._place[parameter] = (u, p, name)

    def __contains__(self, parameter):
        return isinstance(parameter, torch.Tensor) and parameter in self._place

    def gather(self, parameters, dtype=None, call="state_dict"):
        """{parameter: its fp32 master as a whole}, or in the type that dtype(parameter) says. Every
        rank asks for the same; `call` is what errors name."""
        self._session.meet(call)
        result = {}
        for unit in self.by_unit(parameters):
            result.update(self.gather_unit(unit, dtype))
        return result

    def by_unit(self, parameters):
        """Lists of those of one unit, in the order of units."""
        lists = {}
        for parameter in parameters:
            lists.setdefault(self._place[parameter][0], []).append(parameter)
        return [lists[unit] for unit in sorted(lists)]

    def gather_unit(self, parameters, dtype=None):
        """As gather, of parameters of one unit and without asking whether all ranks are here."""
        flat = torch.zeros(sum(parameter.numel() for parameter in parameters))
        parts = flat.split([parameter.numel() for parameter in parameters])
        self._session.read_owned(self._wholes(zip(parameters, parts, strict=True)))
        if self._group is not None:
            # Each element is not zero on its owner alone, so as integers the sum keeps all bits.
            dist.all_reduce(flat.view(torch.int32), group=self._group)
        return {
            # Memory of its own: what is saved or shared must not drag the unit along.
            parameter: part.view(parameter.shape).to(
                dtype(parameter) if dtype else torch.float32, copy=True
            )
            for parameter, part in zip(parameters, parts, strict=True)
        }

    def is_lent(self, parameter):
        return parameter in self._lent

    def lend(self, values):
        self._lent.update(values)
        for whole in self._wholes(values.items()):
            self._session.lend(whole)

    def take_back(self, parameters):
        for parameter in parameters:
            del self._lent[parameter]
            self._session.take_back(*self._place[parameter][:2])

    def refuse_lent(self, call):
        """An error while parameters are lent: they would overwrite what the call does."""
        if self._lent:
            name = self._place[next(iter(self._lent))][2]
            raise _native.UsageError(
                f"{call} inside full_params(...), which holds {name} and would undo it: call it "
                "behind the with block"
            )

    def broadcast(self, parameters, source):
        """The values of lent ones, from one rank to all."""
        if self._group is not None:
            for parameter in parameters:
                dist.broadcast(self._lent[parameter], src=source, group=self._group)

    def write_back(self, values):
        """Edits reach the masters, each element from the rank that owns it."""
        changed = self._session.write_owned(self._wholes(values.items()))
        if self._session.mean_over_ranks(float(changed)) > 0:
            self._session.refresh_weights()

    def _wholes(self, values):
        return [
            _native.Whole(*self._place[parameter][:2], value.detach().contiguous())
            for parameter, value in values
        ]
