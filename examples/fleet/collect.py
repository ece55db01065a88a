"""Fetches what each node recorded through Ray itself: one task a node, which returns a part of that node's recordings.

    python collect.py FOLDER [--since -2h] [--recordings /var/lib/raytrace] [--raytrace raytrace]
"""

import argparse
import os
import subprocess
import tempfile

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


@ray.remote(num_cpus=0, max_retries=0)
def part(program, recordings, since):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "part.raytrace")
        command = [program, "slice", recordings, "--since", since, "-o", file]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 6):  # 6: a file is damaged, and the rest is there
            raise RuntimeError(done.stderr)
        with open(file, "rb") as slice:
            return slice.read()


def collect(arguments):
    os.makedirs(arguments.folder, exist_ok=True)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    on = {node["NodeID"]: NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes}
    asked = (arguments.raytrace, arguments.recordings, arguments.since)
    parts = {node: part.options(scheduling_strategy=where).remote(*asked) for node, where in on.items()}
    for node in nodes:
        try:
            content = ray.get(parts[node["NodeID"]], timeout=300)
        except Exception as error:
            print(node["NodeManagerHostname"], "has nothing for us:", error)
            continue
        name = f"{node['NodeManagerHostname']}-{node['NodeID'][:8]}.raytrace"
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
