"""Stages one kind of machine for `raytrace doctor`, and records its session and raylet.

    python machines.py --truth FILE
        --machine plain|nested-limit|driver-only|monitor-off|small-shm|no-knob
"""

import argparse
import subprocess
import sys

from cluster import Cluster
from truth import Truth

MIB = 1 << 20
MACHINES = ["plain", "nested-limit", "driver-only", "monitor-off", "small-shm", "no-knob"]
SMALL_SHM = "mount -t tmpfs -o size=64m none /dev/shm"
IDLE = "import ray, time; ray.init(log_to_driver=False); print('connected', flush=True); time.sleep(600)"


def machine(kind):
    if kind == "monitor-off":
        return Cluster("doctor", settings={"RAY_memory_monitor_refresh_ms": "0"})
    if kind == "small-shm":
        return Cluster("doctor", mounts=SMALL_SHM)
    if kind == "no-knob":
        return Cluster("doctor", settings={"RAY_object_store_memory": "32212254720", "RAY_memory_use_threshold": "0.9"})
    return Cluster("doctor")


def driver(cluster):
    environment = {**cluster.environment, "RAY_ADDRESS": cluster.address, "RAY_memory_usage_threshold": "0.98"}
    started = cluster.popen([sys.executable, "-c", IDLE], env=environment, stdout=subprocess.PIPE, text=True)
    if "connected" not in started.stdout.readline():
        raise RuntimeError("the driver did not connect")
    return started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--machine", required=True, choices=MACHINES)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    with machine(arguments.machine) as cluster:
        cluster.start()
        if arguments.machine == "nested-limit":
            cluster.leaf.limit(1536 * MIB)
        if arguments.machine == "driver-only":
            driver(cluster)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
