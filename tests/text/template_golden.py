#!/usr/bin/env python3
"""What Jinja, as transformers sets it up, makes of many templates, for the tests of thinwire/text.

    python3 tests/text/template_golden.py [--random 150] [--seed 1] [--out FILE]

Needs jinja2 from PyPI.
"""

import argparse
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import templates

NOW = 1_700_000_000  # what strftime_now sees


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what an assistant said."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


class Refusal(Exception):
    pass


def refuse(message):
    raise Refusal(message)


def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment():
    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    result.filters["tojson"] = to_json
    result.globals["raise_exception"] = refuse
    result.globals["strftime_now"] = datetime.datetime.fromtimestamp(NOW).strftime
    return result


def render(env, template, variables):
    """{"output"}, {"refusal"} or {"error"}."""
    try:
        return {"output": env.from_string(template).render(**variables)}
    except Refusal as refusal:
        return {"refusal": str(refusal)}
    except Exception as error:  # whatever Python raises in an expression
        return {"error": f"{type(error).__name__}: {error}"}


def conversations():
    for messages in templates.CONVERSATIONS:
        for more in ({}, {"add_generation_prompt": True, "tools": [templates.TOOL]}):
            tokens = {"bos_token": "<s>", "eos_token": "</s>"}
            yield {"messages": messages, **tokens, **more}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument(
        "--out", type=pathlib.Path, default=root / "thinwire/text/testdata/templates.json"
    )
    options = parser.parse_args()
    env = environment()
    models = []
    for name, source in templates.MODELS.items():
        for i, variables in enumerate(conversations()):
            models.append({"model": name, "conversation": i, **render(env, source, variables)})
    small = templates.SMALL + templates.random_templates(options.seed, options.random)
    content = {
        "now": NOW,
        "sources": templates.MODELS,
        "conversations": list(conversations()),
        "models": models,
        "variables": templates.SMALL_VARIABLES,
        "small": [{"template": t, **render(env, t, templates.SMALL_VARIABLES)} for t in small],
    }
    dump = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    options.out.write_text(dump + "\n")
    print(f"{options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
