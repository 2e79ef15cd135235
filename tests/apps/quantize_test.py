"""`thinwire quantize`, run as a user runs it: types, values, messages.

    quantize_test.py BINARY

Files are written here from GGUF's description, not with the project's own writer.
"""

import math
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from array import array
from pathlib import Path

BINARY = ""
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8


def run(*arguments):
    return subprocess.run(
        [BINARY, "quantize", *map(str, arguments)], capture_output=True, text=True, timeout=30
    )


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(tensors, keys=()):
    """Tensors as (name, extents from the innermost on, type, bytes), keys as (name, u32)."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for name, value in keys:
        head += text(name) + struct.pack("<II", 4, value)
    data = b""
    for name, extents, kind, content in tensors:
        head += text(name) + struct.pack(f"<I{len(extents)}Q", len(extents), *extents)
        head += struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def floats(count, seed=1, scale=0.02):
    source = random.Random(seed)
    return array("f", [source.gauss(0, scale) for _ in range(count)])


def relative_error(values, others):
    missed = sum((a - b) ** 2 for a, b in zip(values, others, strict=True))
    return math.sqrt(missed / sum(a * a for a in values))


class QuantizeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.source = self.folder / "in.gguf"
        self.out = self.folder / "out.gguf"

    def write(self, tensors, keys=()):
        self.source.write_bytes(gguf(tensors, keys))

    def quantize(self, *arguments):
        result = run(self.source, self.out, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refuse(self, message, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)

    def types(self, path):
        shown = subprocess.run(
            [BINARY, "inspect", path], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        return dict(re.findall(r"^ +(\S+\.(?:weight|bias)) +(\w+) ", shown, re.MULTILINE))

    def planned(self, recipe, tensors):
        """Types by name, of tensors given as {name: extents}."""
        zeros = [
            (name, extents, F32, bytes(4 * math.prod(extents))) for name, extents in tensors.items()
        ]
        self.write(zeros)
        shown = self.quantize(recipe, "--dry-run")
        return dict(re.findall(r"^ +(\S+) +F32 +(\w+)$", shown, re.MULTILINE)), shown

    def test_weights_change_and_the_rest_stays(self):
        matrix, norm, head = floats(512 * 40), floats(512, 2, 1.0), floats(512 * 8, 3)
        self.write(
            [
                ("blk.0.attn_q.weight", (512, 40), F32, matrix.tobytes()),
                ("blk.0.attn_norm.weight", (512,), F32, norm.tobytes()),
                ("output.weight", (512, 8), F32, head.tobytes()),
            ],
            [("general.file_type", 0), ("llama.block_count", 1)],
        )
        shown = self.quantize("Q4_K")
        self.assertIn("bits per weight", shown)
        self.assertFalse((self.folder / "out.gguf.tmp").exists())
        self.assertEqual(
            self.types(self.out),
            {
                "blk.0.attn_q.weight": "Q4_K",
                "blk.0.attn_norm.weight": "F32",
                "output.weight": "Q6_K",
            },
        )
        self.assertIn(norm.tobytes(), self.out.read_bytes())
        self.assertIn(text("llama.block_count") + struct.pack("<II", 4, 1), self.out.read_bytes())
        self.assertIn(text("general.file_type") + struct.pack("<II", 4, 14), self.out.read_bytes())

        back = self.folder / "back.gguf"
        self.assertEqual(run(self.out, back, "f32").returncode, 0)
        decoded = array("f")
        content = back.read_bytes()
        decoded.frombytes(content[-4 * (len(matrix) + len(norm) + len(head)) :])
        error = relative_error(matrix, decoded[: len(matrix)])
        self.assertLess(error, 0.075)
        self.assertGreater(error, 0.05)
        self.assertIn(f"{error:.4f}", shown)
        self.assertLess(relative_error(head, decoded[-len(head) :]), 0.02)

    def test_threads_write_the_same_bytes(self):
        self.write([("a.weight", (256, 3000), F32, floats(256 * 3000).tobytes())])
        written = []
        for threads in (1, 3):
            self.quantize("Q4_1", "--threads", threads)
            written.append(self.out.read_bytes())
        self.assertEqual(written[0], written[1])

    def test_halves_and_blocks_are_sources_too(self):
        half = struct.pack("<64e", *([0.5] * 64))
        block = struct.pack("<e32b", 0.25, *range(-16, 16))
        self.write([("a.weight", (32, 2), F16, half), ("b.weight", (32, 2), Q8_0, block + block)])
        self.quantize("F32")
        values = struct.unpack("<128f", self.out.read_bytes()[-512:])
        self.assertEqual(values[:64], (0.5,) * 64)
        self.assertEqual(values[64:96], tuple(0.25 * q for q in range(-16, 16)))

    def test_rows_that_do_not_divide(self):
        extents = {f"blk.{n}.attn_q.weight": (576, 4) for n in range(3)}
        extents["blk.0.odd.weight"] = (40, 4)
        for recipe, type_ in {
            "Q4_K": "Q5_0",
            "Q5_K": "Q5_1",
            "Q6_K": "Q8_0",
            "Q2_K": "Q4_0",
        }.items():
            types, shown = self.planned(recipe, extents)
            self.assertEqual(types["blk.1.attn_q.weight"], type_)
            self.assertEqual(types["blk.0.odd.weight"], "F16")
            self.assertIn(
                "blk.0.attn_q.weight and 2 more: 576 columns are no multiple of 256: "
                f"{type_} instead of {recipe}",
                shown,
            )
            self.assertIn("blk.0.odd.weight: 40 columns are no multiple of 256: F16", shown)
        self.assertFalse(self.out.exists())

    def test_the_mix_favours_some_blocks(self):
        extents = {
            f"blk.{n}.{kind}.weight": (256, 4) for n in range(16) for kind in ("attn_v", "attn_k")
        }
        types, _ = self.planned("q4_k_m", extents)
        favoured = [n for n in range(16) if types[f"blk.{n}.attn_v.weight"] == "Q6_K"]
        self.assertEqual(favoured, [0, 1, 4, 7, 10, 13, 14, 15])
        self.assertEqual({types[f"blk.{n}.attn_k.weight"] for n in range(16)}, {"Q4_K"})
        types, _ = self.planned("Q3_K_M", extents)
        better = [types[f"blk.{n}.attn_v.weight"] for n in range(16)]
        self.assertEqual(better, 2 * ["Q5_K"] + 14 * ["Q4_K"])
        self.assertEqual({types[f"blk.{n}.attn_k.weight"] for n in range(16)}, {"Q3_K"})

    def test_heads_routers_and_positions(self):
        types, _ = self.planned(
            "Q4_0",
            {
                "token_embd.weight": (256, 8),
                "position_embd.weight": (256, 8),
                "blk.0.ffn_gate_inp.weight": (256, 4),
                "blk.0.ffn_up_exps.weight": (256, 4, 2),
                "blk.0.attn_q.bias": (256,),
            },
        )
        self.assertEqual(
            types,
            {
                "token_embd.weight": "Q6_K",
                "position_embd.weight": "F32",
                "blk.0.ffn_gate_inp.weight": "F32",
                "blk.0.ffn_up_exps.weight": "Q4_0",
                "blk.0.attn_q.bias": "F32",
            },
        )
        types, _ = self.planned("Q4_0", {"token_embd.weight": (256, 8), "output.weight": (256, 8)})
        self.assertEqual(types, {"token_embd.weight": "Q4_0", "output.weight": "Q6_K"})

    def test_tensors_of_another_type(self):
        zeros = bytes(4 * 64)
        names = ("blk.0.attn_q.weight", "blk.1.attn_q.weight", "output.weight")
        self.write([(name, (32, 2), F32, zeros) for name in names])
        overrides = ("--tensor", "*attn_q*=Q8_0", "--tensor", "blk.1.*=F16")
        self.assertEqual(run(*overrides, self.source, self.out, "Q4_0").returncode, 0)
        self.assertEqual(list(self.types(self.out).values()), ["Q8_0", "F16", "Q8_0"])
        for message, pattern in {
            "no tensor has such a name": "attn_k*=Q8_0",
            "expected PATTERN=TYPE": "output.weight=Q9",
            "output.weight has rows of 32, but Q4_K comes in blocks of 256": "output.*=Q4_K",
        }.items():
            self.refuse(message, self.source, self.out, "Q4_0", "--tensor", pattern)

    def test_importances(self):
        """The columns of one expert count the more the further right, of the other the reverse."""
        columns, rows = 64, 16
        weights = floats(2 * rows * columns)
        self.write([("x_exps.weight", (columns, rows, 2), F32, weights.tobytes())])
        means = [math.exp(-i / 6) for i in range(columns)]
        sums = array("f", [7 * m for m in means[::-1]] + [3 * m for m in means])
        counts = array("f", [7, 3])

        def importances(*tensors):
            path = self.folder / "importances.gguf"
            path.write_bytes(gguf(tensors))
            return path

        path = importances(
            ("x_exps.weight.in_sum2", (columns, 2), F32, sums.tobytes()),
            ("x_exps.weight.counts", (1, 2), F32, counts.tobytes()),
        )

        def error(*arguments):
            self.quantize("Q4_0", "--tensor", "*=Q4_0", *arguments)
            back = self.folder / "back.gguf"
            self.assertEqual(run(self.out, back, "F32").returncode, 0)
            decoded = array("f", back.read_bytes()[-4 * len(weights) :])
            scales = [math.sqrt(m) for m in means[::-1]] * rows + [
                math.sqrt(m) for m in means
            ] * rows
            return relative_error(
                [s * w for s, w in zip(scales, weights, strict=True)],
                [s * w for s, w in zip(scales, decoded, strict=True)],
            )

        self.assertLess(error("--importance", path), 0.9 * error())

        other = importances(("y.in_sum2", (columns, 2), F32, sums.tobytes()))
        shown = self.quantize("Q4_0", "--importance", other)
        self.assertIn("x_exps.weight: no importances, so all columns count alike", shown)
        bad = importances(
            ("x_exps.weight.in_sum2", (columns,), F32, sums[:columns].tobytes()),
            ("x_exps.weight.counts", (1,), F32, counts[:1].tobytes()),
        )
        self.refuse(
            "x_exps.weight.in_sum2: 128 F32 expected, found 64 F32",
            *(self.source, self.folder / "new", "Q4_0", "--importance", bad),
        )
        self.refuse(
            "no tensor is called NAME.in_sum2",
            *(self.source, self.folder / "new", "Q4_0", "--importance", self.source),
        )

    def test_what_was_lost_before_is_said(self):
        self.write([("a.weight", (32, 2), Q4_1, bytes(40))])
        self.assertIn("warning: 1 tensor comes from Q4_1", self.quantize("Q4_0"))
        self.assertNotIn("warning", self.quantize("Q4_1"))
        self.assertNotIn("warning", self.quantize("F16"))

    def test_refusals(self):
        values = floats(64)
        values[37] = math.nan
        self.write([("blk.3.x.weight", (32, 2), F32, values.tobytes())])
        self.refuse("blk.3.x.weight: row 1, column 5 is nan", self.source, self.out, "Q8_0")
        self.assertFalse(self.out.exists())
        self.assertEqual([p.name for p in self.folder.iterdir()], ["in.gguf"])
        self.refuse("is the file that is read", self.source, self.source, "Q8_0")
        self.out.symlink_to(self.source)
        self.refuse("is the file that is read", self.source, self.out, "Q8_0")
        self.refuse('no recipe is called "Q4_X"', self.source, self.folder / "new", "Q4_X")
        self.refuse("absent.gguf", self.folder / "absent.gguf", self.folder / "new", "Q8_0")


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
