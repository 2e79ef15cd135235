#!/usr/bin/env python3
"""Writes the tables of README.md and docs/*.md from the committed results, never by hand.

A table stands between two lines of Markdown:

  <!-- table: wire -->
  <!-- end table -->

  python3 bench/tables.py            # rewrites what is between them
  python3 bench/tables.py --check    # only says whether that would change anything (exit status)
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shm import ratios as shm_ratios

Result = dict[str, Any]

_TABLE = re.compile(
    r"(?P<begin><!-- table: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end table -->)",
    re.DOTALL,
)
_NOT_YET = "Not measured yet.\n"


def number(value: float | None, digits: int) -> str:
    """`value` with `digits` decimals, or a dash if it was not measured."""
    return "-" if value is None else f"{value:,.{digits}f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers and stand to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def origin(found: Sequence[Result]) -> str:
    """The line under a table: what was measured, where, and at which commits."""

    def all_of(values: Sequence[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    models = all_of([r["model"] for r in found if r["model"] is not None])
    hosts = all_of([r["hosts"] for r in found])
    kappas = all_of([str(k) for k in sorted(r["kappa"] for r in found if r["kappa"] is not None)])
    commits = all_of([f"`{r['commit']}`" for r in found])
    return (
        f"\n{models}{'; ' if models else ''}{hosts} hosts{f', kappa {kappas}' if kappas else ''}; "
        f"{all_of([r['machine'] for r in found])}; commit {commits}.\n"
    )


def wire(results: dict[str, Result]) -> str:
    """Bytes on the slow link per recipe, from wire-RECIPE.json."""
    found = [result for name, result in results.items() if name.startswith("wire-")]
    if not found:
        return _NOT_YET
    found.sort(key=lambda result: -float(result["formula_bytes_per_param"]))
    rows = [
        [
            f"{r['recipe']}, {r['topology']}, {r['mbit']:g} Mbit/s"
            + (f", {r['micro_batches']} micro-batches" if r.get("micro_batches", 1) > 1 else ""),
            number(r["formula_bytes_per_param"], 3),
            number(r["payload_bytes_per_param"], 3),
            number(r["wire_bytes_per_param"], 3),
            number(r["messages_per_step"], 0),
            number(r["step_s"], 2),
        ]
        for r in found
    ]
    header = ["recipe", "formula", "payload", "on the wire", "messages", "s/step"]
    return markdown(header, rows) + origin(found)


def peers(results: dict[str, Result]) -> str:
    """thinwire beside DDP, FSDP2, HSDP and DeepSpeed, from peers-MBIT.json; limited rates first."""
    return _peers([r for name, r in results.items() if re.fullmatch(r"peers-\d+", name)])


def peers_python(results: dict[str, Result]) -> str:
    """The same of thinwire's Python package, from peers-python-MBIT.json."""
    return _peers([r for name, r in results.items() if re.fullmatch(r"peers-python-\d+", name)])


def _peers(found: list[Result]) -> str:
    if not found:
        return _NOT_YET
    found.sort(key=lambda r: rate_of(r) or 1e9)
    columns = [
        f"s/step at {rate_of(r):g} Mbit/s" if rate_of(r) else "s/step, no limit" for r in found
    ]
    header = ["", "wire bytes per parameter", *columns]
    rows = [[name, wire_bytes(found, name), *seconds(found, name)] for name in names_in(found)]
    return markdown(header, rows) + origin(found)


def links(results: dict[str, Result]) -> str:
    """Seconds per step of each recipe by rate, with bytes and kappa, from links.json."""
    made = results.get("links")
    if made is None:
        return _NOT_YET
    found = {(row["recipe"], row["mbit"]): row for row in made["rows"]}
    rates = sorted({rate for _, rate in found}, key=lambda rate: rate or 1e9)
    kappas = {row["mbit"]: row["kappa"] for row in made["rows"]}
    header = ["", "wire bytes per parameter"]
    header += [f"{rate:g} Mbit/s, kappa {kappas[rate]}" if rate else "no limit" for rate in rates]
    rows = []
    for recipe in dict.fromkeys(recipe for recipe, _ in found):
        bytes_ = [
            row["wire_bytes_per_param"]
            for (name, rate), row in found.items()
            if name == recipe and rate and row["wire_bytes_per_param"] is not None
        ]
        sent = "-" if recipe == "auto" or not bytes_ else number(max(bytes_), 3)
        times = [found.get((recipe, rate)) for rate in rates]
        rows.append([recipe, sent, *[number(row and row["step_s"], 2) for row in times]])
    return markdown(header, rows) + origin([made])


def peers_tokens(results: dict[str, Result]) -> str:
    """The same by tokens per rank, at 200 Mbit/s, from peers-200.json and peers-200-TOKENS.json."""
    found = [r for name, r in results.items() if re.fullmatch(r"peers-200(-\d+)?", name)]
    if len(found) < 2:
        return _NOT_YET
    found.sort(key=lambda r: int(r["tokens"]))
    header = ["", *[f"s/step with {r['tokens']} tokens" for r in found]]
    rows = [[name, *seconds(found, name)] for name in names_in(found)]
    but_tokens = [r | {"model": (r["model"] or "").rpartition(", ")[0] or None} for r in found]
    return markdown(header, rows) + origin(but_tokens)


def overhead(results: dict[str, Result]) -> str:
    """A step of many tiny parameters beside DDP's, from overhead.json."""
    made = results.get("overhead")
    if made is None:
        return _NOT_YET
    rows = [
        [
            number(row["ranks"], 0),
            number(1000 * row["ddp_s"], 1),
            number(1000 * row["thinwire_s"], 1),
            f"{row['overhead_percent']:+.1f} %",
        ]
        for row in made["rows"]
    ]
    return markdown(["ranks", "DDP, ms/step", "thinwire, ms/step", ""], rows) + origin([made])


def parity(results: dict[str, Result]) -> str:
    """How far a model ends from DDP and from stage 0, at any number of ranks, from parity.json."""
    made = results.get("parity")
    if made is None:
        return _NOT_YET

    def worst(model: str, dtype: str, key: str) -> str:
        found = [r[key] for r in made["rows"] if (r["model"], r["dtype"]) == (model, dtype)]
        return f"{max(found):.1e}" if max(found) else "0"

    models = list(dict.fromkeys(row["model"] for row in made["rows"]))
    ranks = {
        model: ", ".join(
            dict.fromkeys(str(r["ranks"]) for r in made["rows"] if r["model"] == model)
        )
        for model in models
    }
    rows = [
        [model, ranks[model]]
        + [worst(model, dtype, key) for dtype in ("fp32", "bf16") for key in ("loss", "weight")]
        for model in models
    ]
    header = ["model", "ranks", "loss", "weights", "bf16: loss", "bf16: weights"]
    return markdown(header, rows) + origin([made])


def situations(results: dict[str, Result]) -> str:
    """What is known to go wrong elsewhere, and what happens here, from situations.json."""
    made = results.get("situations")
    if made is None:
        return _NOT_YET
    lines = [
        "| | reported | trouble | here | tests | |\n",
        "| --- | --- | --- | --- | ---: | --- |\n",
    ]
    group = ""
    for row in made["rows"]:
        first = row["group"] if row["group"] != group else ""
        group = row["group"]
        cells = [first, row["report"], row["trouble"], row["here"], str(row["tests"])]
        lines.append(f"| {' | '.join([*cells, row['outcome']])} |\n")
    return "".join(lines) + origin([made])


def rate_of(result: Result) -> float:
    """Mbit/s that the runs of a comparison had; 0 without a limit."""
    return float(result["runs"][0]["mbit"])


def names_in(found: list[Result]) -> list[str]:
    """Every implementation that was compared, in order."""
    return list(dict.fromkeys(run["name"] for result in found for run in result["runs"]))


def seconds(found: list[Result], name: str) -> list[str]:
    """Seconds per step of one implementation in each comparison."""
    times = [{run["name"]: run["step_s"] for run in result["runs"]} for result in found]
    return [number(by_name.get(name), 2) for by_name in times]


def wire_bytes(found: list[Result], name: str) -> str:
    """What a host sent per parameter, from the slowest link on which it was counted."""
    counted = [
        run["wire_bytes_per_param"]
        for result in found
        for run in result["runs"]
        if run["name"] == name and run["wire_bytes_per_param"] is not None
    ]
    return number(counted[0] if counted else None, 2)


def demo(results: dict[str, Result]) -> str:
    """What `make demo` prints at its end, from demo.json."""
    result = results.get("demo")
    if result is None:
        return _NOT_YET
    header = ["", *[run["recipe"] for run in result["runs"]]]
    rows = [
        [label, *[number(run[key], digits) for run in result["runs"]]]
        for label, key, digits in (
            ("bytes per parameter and step on the link, by the formula", "formula", 2),
            ("... payload", "payload", 2),
            ("... on the wire", "wire", 2),
            ("seconds per step", "step_s", 3),
            ("tokens per second", "tokens_per_s", 0),
            ("loss at the end", "loss", 4),
            ("peak memory per rank, MiB", "peak_mib", 0),
        )
    ]
    return markdown(header, rows) + origin([result])


def quality(results: dict[str, Result]) -> str:
    """The gap of the loss per recipe and variant, from quality-RECIPE.json; the floor beside it."""
    found = [result for name, result in results.items() if name.startswith("quality-")]
    if not found:
        return _NOT_YET
    header = [
        "recipe",
        "computing in",
        "branches",
        "mean gap, %",
        "spread, %",
        "upper 95 % bound, %",
    ]
    rows = [
        [
            row["label"],
            r["compute"],
            number(r["branches"], 0),
            number(row["mean_gap_percent"], 3),
            number(row["spread_percent"], 3),
            number(row["upper_bound_percent"], 3),
        ]
        for r in found
        for row in [*r["rows"], r["floor"]]
    ]
    return markdown(header, rows) + origin(found)


def codec(results: dict[str, Result]) -> str:
    """Kernels per instruction set, from codec.json; a ratio below the bar is bold."""
    made = results.get("codec")
    if made is None:
        return _NOT_YET
    isas = list(dict.fromkeys(row["isa"] for row in made["rows"] if row["has_bar"]))
    isas += [isa for isa in dict.fromkeys(row["isa"] for row in made["rows"]) if isa not in isas]
    header = ["kernel"]
    for isa in isas:
        header += [f"{isa}, GB/s", "of a plain loop"]
    needed = {bar["name"].partition(": ")[0]: bar["bar"] for bar in made["bars"]}
    table = []
    for kernel in dict.fromkeys(row["kernel"] for row in made["rows"]):
        found = {row["isa"]: row for row in made["rows"] if row["kernel"] == kernel}
        line = [kernel]
        for isa in isas:
            row = found.get(isa)
            ratio = number(None if row is None else row["ratio"], 2)
            below = row is not None and row["has_bar"] and row["ratio"] < needed[kernel]
            line += [
                number(None if row is None else row["gigabytes_per_second"], 1),
                f"**{ratio}**" if below else ratio,
            ]
        table.append(line)
    return markdown(header, table) + (
        f"\nOne thread, arrays of 64 MiB; build `{made['build']}`; {made['machine']}; "
        f"commit `{made['commit']}`.\n"
    )


def shm(results: dict[str, Result]) -> str:
    """Shared memory beside Gloo and one memcpy by size of message, from shm.json."""
    made = results.get("shm")
    if made is None:
        return _NOT_YET
    ways = list(dict.fromkeys(row["way"] for row in made["rows"]))
    found = {(row["way"], row["kib"]): row for row in made["rows"]}
    ratios = shm_ratios(made["rows"])
    names = list(dict.fromkeys(name for each in ratios.values() for name in each))
    header = ["KiB", *(f"{way}, {unit}" for unit in ("us one way", "MiB/s") for way in ways)]
    table = [
        [
            f"{kib:,}",
            *(number(found[way, kib]["one_way_us"], 1) for way in ways),
            *(number(found[way, kib]["mib_per_s"], 0) for way in ways),
            *(number(ratios[kib].get(name), 2) for name in names),
        ]
        for kib in dict.fromkeys(row["kib"] for row in made["rows"])
    ]
    return markdown([*header, *names], table) + (
        f"\nBuild `{made['build']}`; {made['machine']}; commit `{made['commit']}`.\n"
    )


def weights(results: dict[str, Result]) -> str:
    """Errors and speeds of weight types beside ggml's, from weights.json."""
    made = results.get("weights")
    if made is None:
        return _NOT_YET
    kinds = list(made["rows"][0]["errors"])
    header = ["type", "bits per weight", *kinds, "encoded/us", "ggml", "decoded/us"]
    table = [
        [
            row["type"],
            number(row["bits"], 2),
            *(f"{e['thinwire']:.4f} ({e['ratio']:.2f})" for e in row["errors"].values()),
            number(row["encoded_per_us"], 0),
            number(row["ggml_encoded_per_us"], 0),
            number(row["decoded_per_us"], 0),
        ]
        for row in made["rows"]
    ]
    return markdown(header, table) + (
        f"\nRelative error of weights (over ggml's); weights per microsecond, one thread; "
        f"embedding of {made['model']}; build `{made['build']}`; {made['machine']}; "
        f"commit `{made['commit']}`.\n"
    )


def llama(results: dict[str, Result]) -> str:
    """Tokens per second beside llama.cpp by type and threads, from llama.json."""
    return _llama(results.get("llama"))


def llama_busy(results: dict[str, Result]) -> str:
    """The same with a busy process on every core, from llama-busy.json."""
    return _llama(results.get("llama-busy"))


def _llama(made: Result | None) -> str:
    if made is None:
        return _NOT_YET
    header = ["weights, threads"]
    for what in ("prompt", "answer"):
        header += [f"{what}, tokens/s", "llama.cpp", "ratio"]
    table = [
        [f"{row['type']}, {row['threads']}"]
        + [
            text
            for what in ("prompt", "answer")
            for text in (
                number(row[f"thinwire {what}"], 0),
                number(row[f"llama.cpp {what}"], 0),
                f"{row[f'{what} ratio']:.2f}",
            )
        ]
        for row in made["rows"]
    ]
    return markdown(header, table) + (
        f"\n{made['model']}, prompts of 512 tokens, answers of 128, medians of {made['rounds']} "
        f"rounds in turns; {made['machine']}; commit `{made['commit']}`.\n"
    )


def whisper(results: dict[str, Result]) -> str:
    """Seconds per second of speech, and words wrong, from whisper.json."""
    made = results.get("whisper")
    if made is None:
        return _NOT_YET
    header = ["", "words wrong"]
    for row in made["rows"]:
        threads = f"{row['threads']} thread" + ("s" if row["threads"] > 1 else "")
        header += [f"processor s, {threads}", f"elapsed s, {threads}"]
    table = [
        [who, str(wrong)]
        + [number(row[f"{who} {what}"], 3) for row in made["rows"] for what in ("cpu_s", "wall_s")]
        for who, wrong in made["words_wrong"].items()
    ]
    return markdown(header, table) + (
        f"\n{made['model']}, seconds per second of speech, {made['seconds']} s of it, medians of "
        f"{made['rounds']} rounds in turns; {made['machine']}; commit `{made['commit']}`.\n"
    )


def plan(results: dict[str, Result]) -> str:
    """Measured and predicted step times, from plan.json: a row per rate and recipe."""
    if "plan" not in results:
        return _NOT_YET
    found = results["plan"]
    rows = []
    for auto in found["auto"]:
        rate = f"{auto['mbit']:g} Mbit/s" if auto["mbit"] else "no limit"
        rows += [
            [
                f"{rate}, {row['recipe']}",
                number(row["measured_s"], 3),
                number(row["predicted_s"], 3),
                f"{row['error']:+.1%}",
            ]
            for row in found["rows"]
            if row["mbit"] == auto["mbit"]
        ]
        rows.append([f"{rate}, auto: {auto['recipe']}", number(auto["step_s"], 3), "-", "-"])
    header = ["rate, recipe", "measured, s/step", "predicted", "error"]
    return markdown(header, rows) + origin([found])


def bars(results: dict[str, Result]) -> str:
    """Every bar of every result, whether it holds or not."""
    rows = [
        [
            f"{bar['name']} (`{name}`)".replace("|", "\\|"),
            "-" if bar["value"] is None else f"{bar['value']:g}",
            f"{bar['bar']:g}",
            {True: "yes", False: "**no**", None: "not measured"}[bar["holds"]],
        ]
        for name, result in results.items()
        for bar in result["bars"]
    ]
    return markdown(["bar", "measured", "needed", "holds"], rows) if rows else _NOT_YET


TABLES: dict[str, Callable[[dict[str, Result]], str]] = {
    "wire": wire,
    "peers": peers,
    "peers-python": peers_python,
    "links": links,
    "peers-tokens": peers_tokens,
    "overhead": overhead,
    "parity": parity,
    "situations": situations,
    "demo": demo,
    "quality": quality,
    "codec": codec,
    "shm": shm,
    "weights": weights,
    "llama": llama,
    "llama-busy": llama_busy,
    "whisper": whisper,
    "plan": plan,
    "bars": bars,
}


def load(folder: Path) -> dict[str, Result]:
    """The committed results by name, in order of names."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def render(text: str, results: dict[str, Result]) -> str:
    """`text` with every table in it made anew. Raises KeyError on a table that does not exist."""

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise KeyError(f"no table {name}: there are {', '.join(TABLES)}")
        return f"{match['begin']}{TABLES[name](results)}{match['end']}"

    return _TABLE.sub(replace, text)


def stale(root: Path, write: bool) -> list[Path]:
    """The pages under `root` whose tables differ from the results; brings them up to date."""
    results = load(root / "bench" / "results")
    changed = []
    for page in [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("**/*.md"))]:
        text = page.read_text()
        made = render(text, results)
        if made != text:
            changed.append(page)
            if write:
                page.write_text(made)
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    changed = stale(args.root, write=not args.check)
    for page in changed:
        page = page.relative_to(args.root)
        print(f"{page} is stale: run python3 bench/tables.py" if args.check else f"{page}: updated")
    return 1 if args.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
