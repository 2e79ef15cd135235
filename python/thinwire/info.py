"""`python -m thinwire.info`: what was built, and what this machine offers."""

import platform
import sys

import torch
import torch.distributed as dist

from thinwire import build


def lines():
    yield f"thinwire {build.__version__}, built for torch {build.TORCH_VERSION}"
    yield f"python   {platform.python_version()} ({sys.executable})"
    yield f"torch    {torch.__version__} ({torch.__path__[0]})"
    try:
        from thinwire.native import _native
    except ImportError as error:
        yield f"engine   does not load: {error}"
        return
    sets = _native.instruction_sets()
    yield f"engine   loads; instruction sets here: {', '.join(sets)}; used: {_native.best_isa()}"
    groups = [
        name
        for name, there in (("gloo", dist.is_gloo_available), ("nccl", dist.is_nccl_available))
        if dist.is_available() and there()
    ]
    yield f"groups   torch.distributed with {', '.join(groups) or 'none: one rank only'}"
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    yield f"devices  CPU, {torch.get_num_threads()} threads; {cuda} CUDA devices, not used yet"


def main():
    for line in lines():
        print(line)


if __name__ == "__main__":
    main()
