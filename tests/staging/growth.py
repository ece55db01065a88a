"""Runs a cluster in which each kind of memory grows by a known size: `growth.py`.

Prints one JSON line for each process that holds memory, including the head's own processes.
"""

import json
import sys
import time

from cluster import Cluster


HEAD = {"gcs": ("gcs_server",), "raylet": ("raylet/raylet",), "dashboard": ("dashboard/dashboard.py",)}


def tell_of_the_head(cluster):
    for label, names in HEAD.items():
        pid = cluster.one(*names)["pid"]
        with open(f"/proc/{pid}/status") as file:
            line = next(line for line in file if line.startswith("RssAnon:"))
        told = {"label": label, "pid": pid, "bytes": int(line.split()[1]) * 1024}
        print(json.dumps(told), flush=True)


def main():
    settings = {"RAY_memory_usage_threshold": "0.95"}
    with Cluster("growth", settings=settings) as cluster:
        cluster.start(dashboard=True, cpus=4)
        driver = cluster.python("growth_job.py")
        status = driver.wait(timeout=240)
        # The recorder samples a running process at least every ten seconds (`RUNS_FAR_NS`). Before
        # that, it does not notice growth between two ticks of the clock.
        time.sleep(11)
        tell_of_the_head(cluster)
        sys.exit(status)


if __name__ == "__main__":
    main()
