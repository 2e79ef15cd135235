#!/usr/bin/env python3
"""The operators torch.ops.thinwire: schema, fake kernels, compiled use, values and errors."""

import unittest

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from thinwire import native  # noqa: F401  registers the operators

ops = torch.ops.thinwire
FORMATS = ("fp32", "bf16", "fp16", "int8/32", "int8/128", "int4/128", "int4/64/searched")
SIZES = (0, 1, 31, 128, 129, 777)


def elements(size, dtype=torch.float32, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def largest_error(x, form):
    """Per element, the bound of kernels/quantize.h with room for one rounding."""
    if not form.startswith("int"):
        return x.abs() * {"fp32": 0, "bf16": 2**-8, "fp16": 2**-11}[form] + 1e-7
    block = int(form.split("/")[1])
    steps = 127 if form.startswith("int8") else 8  # int4: a whole step, +8 has no code
    share = 0.51 if form.startswith("int8") else 1.05
    largest = torch.cat([part.abs().max().expand(len(part)) for part in x.split(block)])
    return largest / steps * (1 + 2**-7) * share


class OperatorsTest(unittest.TestCase):
    def test_opcheck(self):
        for form in ("bf16", "int8/128", "int4/64/searched", "int3/128", "rot32+ternary/64"):
            for size, dtype in ((0, torch.float32), (129, torch.float32), (300, torch.bfloat16)):
                x = elements(size, dtype)
                message, out = ops.quantize(x, form), torch.empty(size, dtype=dtype)
                torch.library.opcheck(ops.quantize, (x, form))
                torch.library.opcheck(ops.dequantize, (message, size, form, dtype))
                torch.library.opcheck(ops.dequantize_into, (message, form, out))
                torch.library.opcheck(ops.dequantize_sum, ([message, x], size, form))

    def test_round_trip(self):
        for form in FORMATS:
            for size in SIZES[1:]:
                x = elements(size)
                message = ops.quantize(x, form)
                back = ops.dequantize(message, size, form, torch.float32)
                self.assertTrue(bool(((back - x).abs() <= largest_error(x, form)).all()), form)
                into = torch.zeros(2, size)[:, ::1][1]
                ops.dequantize_into(message, form, into)
                self.assertTrue(torch.equal(into, back))

    def test_strided_tensors(self):
        x = elements(12 * 34).view(12, 34).t()
        message = ops.quantize(x, "int8/32")
        self.assertTrue(torch.equal(message, ops.quantize(x.contiguous(), "int8/32")))
        out = torch.zeros(12, 34).t()
        ops.dequantize_into(message, "int8/32", out)
        flat = ops.dequantize(message, x.numel(), "int8/32", torch.float32)
        self.assertTrue(torch.equal(out, flat.view(34, 12)))

    def test_sum_is_in_order_and_takes_own_elements(self):
        for form in FORMATS:
            parts = [elements(300, seed=seed) for seed in range(3)]
            terms = [ops.quantize(parts[0], form), parts[1], ops.quantize(parts[2], form)]
            first, last = (ops.dequantize(terms[i], 300, form, torch.float32) for i in (0, 2))
            expected = (first + parts[1]) + last
            self.assertTrue(torch.equal(ops.dequantize_sum(terms, 300, form), expected))

    def test_not_a_number_is_not_laundered(self):
        x = elements(256)
        x[200] = float("nan")
        back = ops.dequantize(ops.quantize(x, "int4/128"), 256, "int4/128", torch.float32)
        self.assertFalse(bool(back[:128].isnan().any()))
        self.assertTrue(bool(back[128:].isnan().all()))

    def test_compiles_without_a_break(self):
        def round_trip(x, form):
            return ops.dequantize(ops.quantize(x, form), x.numel(), form, x.dtype) * 2

        for form in ("int8/128", "int4/128", "int3/64", "ternary/128"):
            compiled = torch.compile(round_trip, fullgraph=True, backend="aot_eager", dynamic=True)
            for size in (129, 300, 517):
                x = elements(size)
                self.assertTrue(torch.equal(compiled(x, form), round_trip(x, form)))

    def test_fake_kernels_keep_sizes_symbolic(self):
        traced = make_fx(lambda x: ops.quantize(x, "int4/128"), tracing_mode="symbolic")(
            elements(300)
        )
        self.assertTrue(torch.equal(traced(elements(999)), ops.quantize(elements(999), "int4/128")))

    def test_errors_are_one_line(self):
        x = elements(64)
        message = ops.quantize(x, "int8/32")
        for call, said in (
            (lambda: ops.quantize(x, "int5/128"), "int5/128.* is no codec: take fp32, bf16"),
            (lambda: ops.quantize(x, "int8/33"), "the block is 33: choose a multiple of 32"),
            (lambda: ops.quantize(x.to("meta"), "int8/0"), 'is "0": choose a multiple of 32'),
            (lambda: ops.quantize(x.double(), "int8/32"), "Double: expected Float, BFloat16"),
            (lambda: ops.dequantize(x, 64, "int8/32", x.dtype), "element type Float .* Byte"),
            (lambda: ops.dequantize(message, -1, "int8/32", x.dtype), "numel is -1"),
            (lambda: ops.dequantize(message, 65, "int8/32", x.dtype), "of 68 bytes .* 71 bytes"),
            (lambda: ops.dequantize_sum([x], 65, "int8/32"), "64 elements: expected 65"),
        ):
            with self.assertRaisesRegex(native._native.Error, said) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
