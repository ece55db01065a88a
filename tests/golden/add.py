"""Adds a recording to the golden ones: takes the machine's names out of it, and keeps it with its JSON report.

    python add.py --raytrace PROGRAM --name NAME FILE [--replace OLD=NEW]…

Each OLD gives way to a NEW of the same length, so that nothing else moves: texts that the recorder cut stay as long as
they were. The report is what PROGRAM says of the result, so PROGRAM is the release that the golden recording stands for.
"""

import argparse
import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# The columns that hold text of the machine.
TEXTS = [("events", "body"), ("cgroup_memory", "path")]
# A path that was cut is recognised by so many letters, and by what follows it.
CUT = 6
ENDS = ['"', "...", "…"]


def pairs(given):
    found = []
    for pair in given:
        old, new = pair.split("=")
        if len(old) != len(new):
            sys.exit(f"{pair}: {len(old)} letters give way to {len(new)}")
        found.append((old, new))
    # The longest first: a path before the folder that it is in.
    return sorted(found, key=lambda pair: -len(pair[0]))


def neutral(text, replaced):
    for old, new in replaced:
        text = text.replace(old, new)
    # A path that was cut within OLD has lost its end.
    for old, new in [pair for pair in replaced if pair[0].startswith("/")]:
        for length in range(len(old) - 1, CUT - 1, -1):
            for end in ENDS:
                text = text.replace(old[:length] + end, new[:length] + end)
    return text


def scrub(file, replaced):
    database = sqlite3.connect(file)
    for table, column in TEXTS:
        rows = database.execute(f"SELECT id, {column} FROM {table}").fetchall()
        for row, text in rows:
            after = neutral(text, replaced)
            if after != text:
                database.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (after, row))
    host(database)
    database.commit()
    # Pages that are free still hold what stood there.
    database.execute("VACUUM")
    database.close()


def host(database):
    """The names of the machine and of its kernel's build."""
    where = "kind = 'recording_started'"
    for row, body in database.execute(f"SELECT id, body FROM events WHERE {where}").fetchall():
        started = json.loads(body)
        name, kernel = started["host"], started["kernel"]
        started["host"] = "node-of-the-recording"[: len(name)] if len(name) > 3 else "n01"[: len(name)]
        version, dash, build = kernel.partition("-")
        # Debian's own names say nothing of anybody.
        known = not dash or "amd64" in build or "deb" in build
        started["kernel"] = kernel if known else f"{version}-{'generic-build-of-it'[: len(build)]}"
        text = json.dumps(started, separators=(",", ":"), sort_keys=True)
        database.execute("UPDATE events SET body = ? WHERE id = ?", (text, row))


def pack(path, content):
    # Without time and name: the same recording gives the same file.
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(content)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--raytrace", required=True, help="the program whose report is kept")
    parser.add_argument("--name", required=True, help="of the golden recording")
    parser.add_argument("--replace", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, f"{arguments.name}.raytrace")
        for end in ("", "-wal"):
            if os.path.exists(arguments.file + end):
                shutil.copy(arguments.file + end, file + end)
        scrub(file, pairs(arguments.replace))
        command = [arguments.raytrace, "report", "--format", "json", file]
        report = subprocess.run(command, check=True, capture_output=True).stdout
        with open(file, "rb") as recording:
            pack(os.path.join(HERE, f"{arguments.name}.raytrace.gz"), recording.read())
        pack(os.path.join(HERE, f"{arguments.name}.json.gz"), report)


if __name__ == "__main__":
    main()
