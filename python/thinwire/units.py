"""Which parameters are gathered and released together: a unit per repeated block of the model."""

from collections import Counter
from dataclasses import dataclass, field

from torch import nn

from thinwire.native import _native

# A gather costs a message to every rank; for fewer elements than this it is not worth its latency.
SMALLEST_UNIT = 1 << 16


@dataclass
class Unit:
    """Around the forward of `module`, `parameters` (by name in the model) are gathered."""

    name: str
    module: nn.Module
    parameters: dict[str, nn.Parameter] = field(default_factory=dict)
    trainable: bool = True
    compute: str = "fp32"  # the type in which they are gathered

    def weights_in_backward(self):
        """Whether backward reads the weights; an embedding's gradient needs none of them."""
        return type(self.module) is not nn.Embedding or self.module.max_norm is not None


def choose(model, type_of, wanted=(), smallest=SMALLEST_UNIT):
    """The units of `model`: the root first, then the others in the order of the model.

    `type_of` is Types.of (types.py); parameters without a type are in no unit.

    `wanted` names them: dotted module names, class names or classes. Without it, they are the
    blocks that repeat in a ModuleList or Sequential, and large layers outside of them.
    The root (always there, perhaps without parameters) keeps everything else, and a parameter that
    several modules share goes to the smallest unit around all of them.
    """
    modules = _named(model, wanted) if wanted else _repeated(model, smallest)
    modules.pop("", None)
    units = {model: Unit("", model)}
    for name, module in modules.items():
        units.setdefault(module, Unit(name, module))
    _share_out(model, units, type_of)
    if not wanted:
        _fold_small(model, units, smallest)
    return [part for unit in units.values() for part in _parts(unit, type_of, unit.module is model)]


def cores(model, units):
    """What `model` does nothing but wrap, outermost first, as far as the modules of `units`. Who
    calls these past it, as PEFT does to generate, wants the root's parameters as well."""
    found = []
    while not list(model.parameters(recurse=False)):
        children = list(model.children())
        if len(children) != 1 or children[0] in units:
            break
        model = children[0]
        found.append(model)
    return found


def _parts(unit, type_of, keep_empty):
    """What is trained and what is frozen, and each type, which the engine keeps apart: they are
    gathered alike."""
    name = unit.name or type(unit.module).__name__
    parts = {}
    for key, parameter in unit.parameters.items():
        kind = (not parameter.requires_grad, type_of(parameter))
        parts.setdefault(kind, {})[key] = parameter
    several = len({compute for _, compute in parts}) > 1
    units = []
    for (frozen, compute), parameters in sorted(parts.items()):
        marks = ", ".join(([compute] if several else []) + (["frozen"] if frozen else []))
        title = f"{name} ({marks})" if marks else name
        units.append(Unit(title, unit.module, parameters, not frozen, compute))
    return units or ([Unit(name, unit.module)] if keep_empty else [])


def _numel(module):
    return sum(parameter.numel() for parameter in module.parameters())


def _named(model, wanted):
    wanted = [wanted] if isinstance(wanted, (str, type)) else list(wanted)
    classes = tuple(each for each in wanted if isinstance(each, type))
    names = {each for each in wanted if isinstance(each, str)}
    if others := [each for each in wanted if not isinstance(each, (str, type))]:
        raise _native.UsageError(
            f"units: expected names of modules, or classes, found {others[0]!r}"
        )
    found, used = {}, set()
    for name, module in model.named_modules():
        mine = {name, type(module).__name__} & names
        if mine or (classes and isinstance(module, classes)):
            found[name] = module
            used |= mine
    used |= {each for each in classes if any(isinstance(m, each) for m in found.values())}
    if missing := [each for each in wanted if each not in used]:
        known = sorted({type(module).__name__ for module in model.modules()})
        titles = sorted(each if isinstance(each, str) else each.__name__ for each in missing)
        raise _native.UsageError(
            f"units: no module or class is called {', '.join(titles)}; "
            f"the classes of this model are {', '.join(known)}"
        )
    return found


def _repeated(model, smallest):
    """Outermost repeated blocks, and large layers beside them: the root, which keeps the others, is
    held throughout a pass, and each buffer has room for the largest unit."""
    found, blocks, layers = {}, {}, {}

    def visit(name, module):
        children = list(module.named_children())
        repeated = set()
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            classes = [type(child) for _, child in children if _numel(child) >= smallest]
            repeated = {each for each in classes if classes.count(each) > 1}
        for key, child in children:
            path = f"{name}.{key}" if name else key
            is_block = type(child) in repeated and _numel(child) >= smallest
            is_layer = not list(child.children()) and _numel(child) >= smallest
            if is_block or is_layer:
                found[path] = child
                (blocks if is_block else layers)[path] = _numel(child)
            else:
                visit(path, child)

    visit("", model)
    large = max(smallest, _numel(model) // 64)
    if blocks:
        large = max(smallest, min(large, max(blocks.values()) // 2))
    return {path: each for path, each in found.items() if path in blocks or layers[path] >= large}


def _share_out(model, units, type_of):
    """Gives every parameter to the smallest unit that encloses all of its uses."""
    around = {}  # parameter -> the units around all its uses so far, outermost first
    names = {}
    for path, module in model.named_modules(remove_duplicate=False):
        enclosing = None
        for key, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if type_of(parameter) is None:
                continue
            if enclosing is None:
                enclosing = _enclosing(model, path, units)
            names.setdefault(parameter, f"{path}.{key}" if path else key)
            before = around.setdefault(parameter, enclosing)
            around[parameter] = [unit for unit in before if unit in enclosing]
    for parameter, enclosing in around.items():
        units[enclosing[-1]].parameters[names[parameter]] = parameter


def _enclosing(model, path, units):
    """The modules on the way from the root to `path` that are units."""
    found, module = [model], model
    for key in filter(None, path.split(".")):
        module = getattr(module, key)
        if module in units:
            found.append(module)
    return found


def _fold_small(model, units, smallest):
    """Units that lost their parameters to ties and are small now go to the root."""
    for module, unit in list(units.items()):
        if module is model or sum(p.numel() for p in unit.parameters.values()) >= smallest:
            continue
        units[model].parameters.update(unit.parameters)
        del units[module]


def depth(model, units):
    """How many units are held at once: the most that enclose one another."""
    parts = Counter(unit.module for unit in units if unit.parameters)
    return max(
        (
            sum(parts[each] for each in _enclosing(model, path, parts))
            for path, _ in model.named_modules(remove_duplicate=False)
        ),
        default=1,
    )
