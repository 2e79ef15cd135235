"""One rank: parameters seen and edited outside of forward."""

import copy
import io

import torch
from models import Block, Mlp, Transformer, batch

import thinwire

CONFIG = {
    "train_micro_batch_size_per_gpu": 3,
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-3}},
    "zero_optimization": {"stage": 3},
}


def _engine(build=Transformer, units=(Block,), config=CONFIG, **changes):
    torch.manual_seed(3)
    model = build()
    for name, requires_grad in changes.items():
        for parameter in getattr(model, name).parameters():
            parameter.requires_grad_(requires_grad)
    plain = copy.deepcopy(model)
    engine, *_ = thinwire.initialize(model=model, config=config, units=units)
    return engine, plain


def _train(engine, rank, step=0):
    loss = engine(batch(step, rank))
    engine.backward(loss)
    engine.step()
    return loss.item()


def released(rank, world):
    """What touching a released parameter says, per way of touching it."""
    engine, _ = _engine()
    parameter = engine.module.blocks[1].up.weight
    said = []
    for touch in (
        lambda: parameter + 1,
        lambda: parameter.sum(),
        lambda: repr(parameter),
        lambda: parameter.detach().numpy(),
        lambda: copy.deepcopy(engine.module.blocks[1].up),
        lambda: torch.save(parameter, io.BytesIO()),
        lambda: parameter.data.mul_(2),
        lambda: engine.module.blocks[1].up(torch.ones(1, 24)),
    ):
        try:
            said.append(f"nothing: {touch()}")
        except RuntimeError as error:
            said.append(str(error))
    _train(engine, rank)  # no harm was done
    return said


def whole_state(rank, world):
    """Whether state_dict() is the model's: names, values, ties; after a step all ranks' alike."""
    engine, plain = _engine()
    before = engine.state_dict()
    same = all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())
    tied = before["head.weight"].data_ptr() == before["embed.weight"].data_ptr()
    modules = engine.module.state_dict()  # what save_pretrained and torch.save are given
    same = same and all(torch.equal(value, before[name]) for name, value in modules.items())
    with thinwire.full_params(engine.module.norm):
        engine.module.norm.bias.data.fill_(0.5)
        lent = engine.module.state_dict()["norm.bias"].unique().tolist()
        engine.module.norm.bias.data.fill_(0.0)
    _train(engine, rank)
    after = engine.state_dict()
    moved = not torch.equal(after["blocks.0.up.weight"], before["blocks.0.up.weight"])
    digest = sum(value.double().sum().item() for value in after.values())
    engine.load_state_dict(before)
    restored = engine.state_dict()
    back = all(torch.equal(value, restored[name]) for name, value in before.items())
    return {
        "same": same,
        "tied": tied,
        "lent": lent,
        "moved": moved,
        "back": back,
        "digest": digest,
    }


def edited(rank, world):
    """An edit of one rank reaches the weights that all ranks compute with."""
    engine, plain = _engine(Mlp, ["Linear"])
    with thinwire.full_params(engine.module.head, modifier_rank=0), torch.no_grad():
        if rank == 0:
            engine.module.head.bias.fill_(0.25)
    with thinwire.full_params(engine.module.layers[0].weight):
        read = torch.equal(engine.module.layers[0].weight, plain.layers[0].weight)
    with torch.no_grad():
        plain.head.bias.fill_(0.25)
        tokens = batch(0, rank)
        difference = (engine(tokens) - plain(tokens)).item()
    try:
        with thinwire.full_params(engine.module), torch.no_grad():
            engine.module.head.bias.fill_(7)
            raise KeyError
    except KeyError:
        pass
    with torch.no_grad():
        dropped = (engine(tokens) - plain(tokens)).item()
    return {"read": read, "difference": difference, "dropped": dropped}


def lent_within(rank, world):
    """full_params inside of it, what it would undo, and a pass that is open where it ends."""
    engine, _ = _engine(Mlp, ["Linear"])
    bias, weight = engine.module.head.bias, engine.module.head.weight
    _train(engine, rank)
    with thinwire.full_params(engine.module), torch.no_grad():
        weight.fill_(0.5)
        with thinwire.full_params(bias, modifier_rank=world - 1):
            bias.fill_(float(rank))
        kept = weight.unique().tolist()  # what is lent outside stays so
    state = engine.state_dict()
    result = {"kept": kept, "bias": state["head.bias"].unique().tolist(), "said": []}
    result["weight"] = state["head.weight"].unique().tolist()
    loss = engine(batch(1, rank))
    engine.backward(loss)
    with thinwire.full_params(engine.module):
        for call in (engine.step, lambda: engine.load_checkpoint("nowhere")):
            _told(result, call)
    engine.step()

    def leave_open():
        with thinwire.full_params(weight):
            return engine(batch(2, rank))

    with thinwire.full_params(weight):  # a loss that nobody keeps is no open pass
        engine(batch(2, rank))
    _told(result, leave_open)
    for what in ("head", None, 3):
        _told(result, lambda what=what: thinwire.full_params(what).__enter__())
    _told(result, lambda: thinwire.full_params(weight, modifier_rank=world).__enter__())
    _train(engine, rank, 3)
    result["moved"] = not torch.equal(engine.state_dict()["head.bias"], state["head.bias"])
    return result


def _told(result, call):
    try:
        result["said"].append(f"nothing: {call()}")
    except RuntimeError as error:
        result["said"].append(str(error))


def unedited_masters(rank, world):
    """With bf16 weights, fp32 masters do not lose bits where nothing was edited."""
    engine, _ = _engine(config=CONFIG | {"bf16": {"enabled": True}})
    _train(engine, rank)
    before = engine.state_dict(torch.float32)
    with thinwire.full_params(engine.module), torch.no_grad():
        engine.module.norm.bias[3] = 0.5
    after = engine.state_dict(torch.float32)
    changed = {n: int((after[n] != v).sum()) for n, v in before.items() if "mix" not in n}
    types = {str(value.dtype) for value in engine.state_dict().values()}
    return {"changed": {n: c for n, c in changed.items() if c}, "types": sorted(types)}


def frozen(rank, world):
    """Frozen parameters stay, the others train as in plain torch."""
    engine, plain = _engine(embed=False, blocks=False)
    for block in plain.blocks[1:]:
        block.requires_grad_(False)
    kept = engine.state_dict()["blocks.2.up.weight"]
    optimizer = torch.optim.AdamW(
        [p for p in plain.parameters() if p.requires_grad], lr=3e-3, weight_decay=0.0
    )
    pairs = []
    for step in range(4):
        losses = [plain(batch(step, each)) for each in range(world)]
        (sum(losses) / world).backward()
        optimizer.step()
        optimizer.zero_grad()
        pairs.append((_train(engine, rank, step), losses[rank].item()))
    stayed = torch.equal(kept, engine.state_dict()["blocks.2.up.weight"])
    return {"pairs": pairs, "stayed": stayed}
