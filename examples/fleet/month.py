"""Counts deaths by day, node and killer with DuckDB.

The input is the JSON lines that `raytrace publish --json` wrote on many nodes.

    pip install duckdb
    python month.py 'collected/*.jsonl'
"""

import sys

import duckdb

DEATHS = """
    SELECT DISTINCT ON ("raytrace.death.id", "host.name") *
    FROM read_json_auto(?, format = 'newline_delimited', union_by_name = true)
    WHERE "event.name" = 'raytrace.death'
"""
BY_NODE = f"""
    SELECT CAST("timestamp" AS DATE) AS day, "host.name" AS node, "raytrace.killer" AS killer,
           count(*) AS deaths, max("raytrace.memory.peak_bytes") / 1073741824 AS peak_gib
    FROM ({DEATHS}) GROUP BY ALL ORDER BY day, deaths DESC, node, killer
"""

for row in duckdb.execute(BY_NODE, [sys.argv[1]]).fetchall():
    day, node, killer, deaths, peak = row
    print(f"{day:%Y-%m-%d}  {node:24} {killer:20} {deaths:5}  peak {peak or 0:.1f} GiB")
