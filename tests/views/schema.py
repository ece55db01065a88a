"""Checks JSON against a schema: schema.py SCHEMA FILE.... A file may be compressed, and may have one
object on each line."""

import gzip
import json
import sys

from jsonschema import Draft202012Validator


def objects(path):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt") as file:
        text = file.read()
    if path.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return [json.loads(text)]


with open(sys.argv[1]) as file:
    schema = json.load(file)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
wrong = [
    f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
    for path in sys.argv[2:]
    for value in objects(path)
    for error in validator.iter_errors(value)
]
print("\n".join(wrong[:20]) or f"{len(sys.argv) - 2} files keep to the schema")
sys.exit(bool(wrong))
