#!/usr/bin/env python3
"""Writes thinwire/blocks/decode_golden.h: blocks of random bytes and what the PyPI package `gguf`
decodes them to. `pip install gguf`, then `tools/block_goldens.py`; the file is committed."""

import argparse
import pathlib

import gguf
import numpy as np

# Where a block's fp16 factors lie: random bytes there would often be inf or NaN.
FACTORS = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "MXFP4": [],
}
HEAD = """\
// Written by tools/block_goldens.py: blocks of random bytes, and the bits of what the gguf package
// decodes them to, in hexadecimal.
#pragma once

#include "thinwire/base/weight_type.h"

namespace thinwire::blocks {

struct DecodeGolden {
  WeightType type;
  const char* blocks;
  const char* values;
};

// clang-format off
constexpr DecodeGolden kDecodeGoldens[] = {
"""
TAIL = """\
};
// clang-format on

}  // namespace thinwire::blocks
"""


def literal(data, indent):
    text = data.hex()
    pieces = [text[i : i + 88] for i in range(0, len(text), 88)]
    return f"\n{indent}".join(f'"{piece}"' for piece in pieces)


def golden(name, random):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, size=(2 if elements == 32 else 1, size), dtype=np.uint8)
    for offset in FACTORS[name]:
        # The last block's factors are subnormal.
        factors = (random.normal(size=len(blocks)) * 0.01).astype(np.float16)
        if len(blocks) > 1:
            factors[-1] = np.float16(random.integers(1, 1023) * -(2.0**-24))
        blocks[:, offset : offset + 2] = factors.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = [1, 121]
    values = gguf.dequantize(blocks.reshape(1, -1), kind).astype("<f4")
    indent = "     "
    return (
        f"    {{WeightType::k{name},\n{indent}{literal(blocks.tobytes(), indent)},\n"
        f"{indent}{literal(values.tobytes(), indent)}}},\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    random = np.random.default_rng(1)
    path = pathlib.Path(__file__).parent.parent / "thinwire/blocks/decode_golden.h"
    path.write_text(HEAD + "".join(golden(name, random) for name in FACTORS) + TAIL)


if __name__ == "__main__":
    main()
