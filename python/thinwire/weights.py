"""The first values of a model's parameters, which go into their owners' shards a unit at a time.

They are those that the parameters have, or that lie in parts on the ranks (parts.py). What was made
under torch.device("meta") gets those of safetensors files (loading.py), or of an initialization
that runs when its unit's turn comes (initializing.py). Which keys the files have and how modules
are initialized is for models of transformers to say (pretrained.py).
"""

from thinwire import parts
from thinwire.absent import without_memory
from thinwire.initializing import Initialization
from thinwire.loading import Loading
from thinwire.native import _native
from thinwire.weight_files import WeightFiles


def fill(session, module, units, absent, source):
    """Gives every parameter's values to the session, and its memory back. `source`: see
    initialize()."""
    into = _Shards(session, units)
    held = {parameter for unit in units for parameter in unit.parameters.values()}
    for parameter in module.parameters():
        if parts.of(parameter) is not None and parameter not in held:
            parts.lift(parameter)
    files, function = _sources(source)
    if not absent and source is not None:
        raise _native.UsageError(
            'weights= is for a model made under torch.device("meta"): this one has values already'
        )
    if files is not None:
        Loading(module, into, absent, files, function).run()
    elif absent:
        Initialization(module, into, absent, function).run()
    else:
        for u in range(len(units)):
            into.take(u)


def _sources(source):
    given = source if isinstance(source, (list, tuple)) else [] if source is None else [source]
    functions = [each for each in given if callable(each)]
    paths = [each for each in given if not callable(each)]
    if len(functions) > 1 or len(paths) > 1:
        raise _native.UsageError("weights: expected at most one path and one function")
    return WeightFiles(paths[0]) if paths else None, functions[0] if functions else None


class _Shards:
    def __init__(self, session, units):
        self._session = session
        self.units = units
        self._place = {}  # of what is taken

    def take(self, u, values=None):
        """The unit's values, where `values` has none its parameters' own."""
        values = values or {}
        parameters = list(self.units[u].parameters.values())
        for p, parameter in enumerate(parameters):
            self._place[parameter] = (u, p)
            if parameter in values or parts.of(parameter) is None:
                self._fill(parameter, values.get(parameter, parameter))
            else:
                self._fill(parameter, parts.whole(parameter))
        for parameter in parameters:
            parameter.data = without_memory(parameter)
            if parts.of(parameter) is not None:
                parts.forget(parameter)

    def __contains__(self, parameter):
        return parameter in self._place

    def take_again(self, parameter):
        self._fill(parameter, parameter)
        parameter.data = without_memory(parameter)

    def _fill(self, parameter, values):
        whole = values.detach().contiguous()
        self._session.fill([_native.Whole(*self._place[parameter], whole)])
