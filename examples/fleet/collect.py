"""Fetches the recordings of each node through Ray itself.

One task on each node cuts the last hours out of the recordings there and returns the slices. There
is one slice for each recorder that ran in that time, so several if the recorder was restarted.

    python collect.py FOLDER [--since=-2h] [--recordings /var/lib/raytrace] [--raytrace raytrace]
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0, max_retries=0)
def slices(program, recordings, since):
    """Returns the contents of the slices of this node."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "slice", recordings, "--since", since, "-o", os.path.join(folder, "slice.raytrace")]
        done = subprocess.run(command, capture_output=True, text=True)
        # Several slices are slice-1.raytrace, slice-2.raytrace and so on.
        written = sorted(pathlib.Path(folder).glob("slice*.raytrace"), key=lambda file: (len(file.name), file.name))
        # 6: a file is damaged, and the rest is there.
        if done.returncode not in (0, 6) or not written:
            raise RuntimeError(done.stderr)
        return [file.read_bytes() for file in written]


def collect(arguments):
    os.makedirs(arguments.folder, exist_ok=True)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    on = {node["NodeID"]: NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes}
    asked = (arguments.raytrace, arguments.recordings, arguments.since)
    tasks = {node: slices.options(scheduling_strategy=where).remote(*asked) for node, where in on.items()}
    for node in nodes:
        try:
            contents = ray.get(tasks[node["NodeID"]], timeout=300)
        except Exception as error:
            print(node["NodeManagerHostname"], "could not be read:", error)
            continue
        for number, content in enumerate(contents, 1):
            end = f"-{number}" if len(contents) > 1 else ""
            name = f"{node['NodeManagerHostname']}-{node['NodeID'][:8]}{end}.raytrace"
            with open(os.path.join(arguments.folder, name), "wb") as file:
                file.write(content)
            print(name, len(content), "bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--since", default="-2h")
    parser.add_argument("--recordings", default="/var/lib/raytrace")
    parser.add_argument("--raytrace", default="raytrace")
    ray.init(log_to_driver=False)
    collect(parser.parse_args())
