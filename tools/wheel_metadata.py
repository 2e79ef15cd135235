"""What the wheel needs beside it, for scikit-build-core: the torch that the engine was built for.

torch keeps its C++ interface within a minor version only, so a wheel goes with the one that stood in
the build environment.
"""

import importlib.metadata


def dynamic_metadata(field, settings):
    if field != "dependencies" or settings:
        raise ValueError(f"tools/wheel_metadata.py has dependencies, without settings; not {field}")
    major, minor = importlib.metadata.version("torch").split(".")[:2]
    return [f"torch=={major}.{minor}.*", "numpy", "safetensors>=0.4.3"]
