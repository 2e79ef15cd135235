#!/usr/bin/env python3
"""The JSON Schema of configs. Needs neither torch nor a build."""

import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import config_page  # noqa: E402

try:
    import jsonschema
except ImportError:  # the structure is tested without it
    jsonschema = None

config = config_page.import_config()
table = config_page.import_config("thinwire.config.table")
keys = config_page.import_config("thinwire.config.key")

SAMPLES = sorted((Path(__file__).parent / "ds_configs").glob("*.json"))


class SchemaTest(unittest.TestCase):
    def test_it_has_every_key_and_nothing_else(self):
        found = set()

        def walk(node, path):
            self.assertFalse(node["additionalProperties"])
            for name, inner in node["properties"].items():
                full = f"{path}.{name}" if path else name
                if "properties" in inner:
                    walk(inner, full)
                else:
                    found.add(full)
                    self.assertIn(table.KEYS[full].text, inner["description"])

        schema = config.json_schema()
        walk(schema, "")
        self.assertEqual(found, set(table.KEYS))
        self.assertEqual(json.loads(json.dumps(schema)), schema)

    @unittest.skipUnless(jsonschema, "the package jsonschema is not installed")
    def test_it_accepts_and_refuses_as_load_does(self):
        schema = config.json_schema()
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        for path in SAMPLES:
            with self.subTest(path.stem):
                errors = list(validator.iter_errors(json.loads(path.read_text())))
                self.assertEqual(bool(errors), path.stem == "zero3_offload", errors)
        for key in table.KEYS.values():
            for value in (key.default, *key.quiet):
                if isinstance(value, keys.Absent):
                    continue
                tree = json.loads(json.dumps(value))
                for name in reversed(key.path.split(".")):
                    tree = {name: tree}
                with self.subTest(key.path, value=value):
                    self.assertEqual(list(validator.iter_errors(tree)), [])
        for tree in ({"stage": 3}, {"zero_optimization": {"stage": 4}}, {"bf16": True}):
            self.assertFalse(validator.is_valid(tree))


if __name__ == "__main__":
    unittest.main()
