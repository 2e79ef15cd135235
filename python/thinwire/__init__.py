"""thinwire trains PyTorch models sharded over many ranks and sends little over slow links.

engine, optimizer, loader, scheduler = thinwire.initialize(model=model, config="ds_config.json")
loss = engine(batch); engine.backward(loss); engine.step()
"""

import torch  # first: thinwire._native links its libraries

from thinwire._build import TORCH_VERSION, VERSION

__version__ = VERSION

if torch.__version__.split("+")[0].rsplit(".", 1)[0] != TORCH_VERSION:
    raise ImportError(
        f"thinwire {VERSION} was built for torch {TORCH_VERSION} and this is torch "
        f"{torch.__version__}: build it here with `pip install --no-build-isolation .`"
    )

from thinwire.engine import Engine  # noqa: E402
from thinwire.initialization import initialize  # noqa: E402

__all__ = ["Engine", "__version__", "initialize"]
