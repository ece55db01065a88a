"""Fills a cgroup from a process outside Ray. The kernel then kills a small Ray worker in it.

    outside_process.py --truth FILE
"""

import argparse
import json
import subprocess
import sys

from cluster import Cluster
from truth import PATIENCE, Roll, Truth, wait_for, wait_gone

MIB = 1 << 20
HELD = 1200 * MIB
# The memory that remains for the driver and the worker.
LEFT = 500 * MIB
SIDECAR = "import time; kept = b'x' * {size}; print('ready', flush=True); time.sleep(600)"


def private(pid):
    with open(f"/proc/{pid}/status") as file:
        figures = dict(line.split(":", 1) for line in file)
    return int(figures.get("RssAnon", "0").split()[0]) * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    truth = Truth(parser.parse_args().truth)
    with Cluster("outside", settings={"RAY_memory_monitor_refresh_ms": "0"}) as cluster:
        cluster.start(cpus=1)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        command = [sys.executable, "-c", SIDECAR.format(size=HELD)]
        sidecar = subprocess.Popen(command, stdout=subprocess.PIPE)
        cluster.small.child("sidecar").add(sidecar.pid)
        sidecar.stdout.readline()
        wait_for(lambda: private(sidecar.pid) >= HELD, PATIENCE)
        cluster.cgroup.limit(sum(private(pid) for pid in cluster.cgroup.pids()) + LEFT)
        job = cluster.python("ramp_job.py", stdin=subprocess.PIPE)
        victim = Roll(cluster.folder).wait("grower")
        print(json.dumps({"pid": sidecar.pid, "bytes": private(sidecar.pid), "victim": victim["pid"]}), flush=True)
        if not wait_gone(victim, 300):
            raise RuntimeError("the worker was not killed")
        truth.death("grower", victim, "kernel-oom-memcg", signal=9, certainty="proven")
        job.stdin.close()
        job.wait()
        sidecar.kill()
        sidecar.wait()


if __name__ == "__main__":
    main()
