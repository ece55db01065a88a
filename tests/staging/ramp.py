"""Stages an actor that grows until it is killed. The kind of machine decides what kills it.

    python ramp.py --truth FILE --machine plain|nested-limit|env-threshold|monitor-off
"""

import argparse
import os
import subprocess
import sys

from cluster import Cluster
from truth import Roll, Truth, wait_gone

MIB = 1 << 20
# The limit of the cgroup that Ray takes for the machine.
MACHINE = 3072 * MIB
SETTINGS = {
    "plain": {"RAY_memory_usage_threshold": "0.95"},
    "nested-limit": {"RAY_memory_usage_threshold": "0.95"},
    "env-threshold": {"RAY_memory_usage_threshold": "0.7"},
    "monitor-off": {"RAY_memory_monitor_refresh_ms": "0"},
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--machine", required=True, choices=SETTINGS)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    with Cluster("ramp", settings=SETTINGS[arguments.machine]) as cluster:
        cluster.cgroup.limit(MACHINE)
        cluster.start(cpus=1)
        if arguments.machine == "nested-limit":
            cluster.leaf.limit(2100 * MIB)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        print("ready", flush=True)
        sys.stdin.readline()
        job = cluster.python("ramp_job.py", stdin=subprocess.PIPE)
        victim = Roll(cluster.folder).wait("grower")
        if not wait_gone(victim, 300):
            raise RuntimeError("the ramp had no end")
        if os.path.exists(os.path.join(cluster.folder, "late")):
            truth.write(kind="unsteady")
        kernel = arguments.machine in ("nested-limit", "monitor-off")
        killer = "kernel-oom-memcg" if kernel else "ray-memory-monitor"
        truth.death("grower", victim, killer, signal=9, certainty="proven")
        job.stdin.close()
        job.wait()


if __name__ == "__main__":
    main()
