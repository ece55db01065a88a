"""Runs every query and every Python example of docs/reference/format.md: `format.py DOCS FOLDER`.

FOLDER holds run.raytrace, run.jsonl and memory.csv. A query that finds nothing proves nothing, so
each must return rows.
"""

import os
import re
import sqlite3
import sys

with open(sys.argv[1]) as file:
    docs = file.read()
os.chdir(sys.argv[2])

queries = [query for block in re.findall(r"```sql\n(.*?)```", docs, re.DOTALL) for query in block.split(";") if query.strip()]
assert len(queries) >= 5, queries
database = sqlite3.connect("run.raytrace")
for query in queries:
    rows = database.execute(query).fetchall()
    assert rows, query
    assert any(value is not None for value in rows[0]), query
    print(len(rows), "rows:", query.strip().splitlines()[0])

programs = re.findall(r"```python\n(.*?)```", docs, re.DOTALL)
assert len(programs) == 2, programs
for program in programs:
    print(program.splitlines()[0])
    exec(compile(program, "docs/reference/format.md", "exec"), {})
