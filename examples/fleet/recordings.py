"""Counts deaths by SIGKILL per node and process, directly from recordings.

DuckDB reads the recordings as SQLite files.

    pip install duckdb-extension-sqlite-scanner
    python recordings.py recordings/*.raytrace
"""

import importlib.resources
import sys

import duckdb

KILLED = """
    INSERT INTO killed
    SELECT (SELECT body->>'$.host' FROM run.events WHERE kind = 'recording_started' LIMIT 1),
           body->>'$.title', (body->>'$.memory.peak')::BIGINT / 1073741824
    FROM run.events WHERE kind = 'exit' AND (body->>'$.status')::INT & 127 = 9
"""
BY_NODE = """
    SELECT node, coalesce(process, '?') AS name, count(*) AS deaths, coalesce(max(peak_gib), 0)
    FROM killed GROUP BY ALL ORDER BY deaths DESC, node, name
"""


def load_sqlite(connection):
    """Loads DuckDB's SQLite extension from its Python package, if that is installed.

    Otherwise DuckDB downloads the extension from extensions.duckdb.org.
    """
    try:
        files = importlib.resources.files("duckdb_extension_sqlite_scanner")
        connection.execute(f"LOAD '{files / 'extensions' / f'v{duckdb.__version__}' / 'sqlite_scanner.duckdb_extension'}'")
    except ModuleNotFoundError:
        connection.execute("INSTALL sqlite; LOAD sqlite")


connection = duckdb.connect()
load_sqlite(connection)
connection.execute("CREATE TABLE killed (node VARCHAR, process VARCHAR, peak_gib DOUBLE)")
for file in sys.argv[1:]:
    path = file.replace("'", "''")
    connection.execute(f"ATTACH '{path}' AS run (TYPE sqlite, READ_ONLY)")
    connection.execute(KILLED)
    connection.execute("DETACH run")
for node, process, deaths, peak in connection.execute(BY_NODE).fetchall():
    print(f"{node:24} {process[:48]:48} {deaths:5}  peak {peak:.1f} GiB")
