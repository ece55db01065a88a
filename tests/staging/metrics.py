"""Stages two kills on a cluster with KubeRay's names for a pod and with Ray's own metrics.

    python metrics.py --truth FILE

Writes the port of Ray's metrics into the file `port` beside the truth file, prints `ready`, and
waits for a line. Then it stages two kills because of memory, prints `staged`, and runs until
standard input ends.
"""

import argparse
import os
import sys
import urllib.request

from cluster import Cluster, free_ports
from truth import PATIENCE, Roll, Truth, wait_for

POD = {
    "RAY_CLUSTER_NAME": "rl-prod",
    "RAY_CLUSTER_NAMESPACE": "team-a",
    "RAY_CLOUD_INSTANCE_ID": "rl-prod-gpu-worker-x7k2p",
    "RAY_NODE_TYPE_NAME": "gpu",
}


def answers(port):
    try:
        return b"ray_node_mem_used" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2).read()
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    truth = Truth(os.path.abspath(parser.parse_args().truth))
    [port] = free_ports(1)
    with Cluster("metrics", settings=POD) as cluster:
        cluster.start(metrics_export_port=port)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        if not wait_for(lambda: answers(port), PATIENCE):
            truth.failed("metrics", f"Ray served no metrics at port {port}")
        with open(os.path.join(os.path.dirname(truth.path), "port"), "w") as file:
            file.write(str(port))
        print("ready", flush=True)
        sys.stdin.readline()
        roll = Roll(os.path.join(cluster.folder, "roll")).folder
        command = ["drive.py", "--truth", truth.path, "--roll", roll, "--raylet", str(cluster.raylet["pid"])]
        driver = cluster.python(*command, "--only", "kernel_oom_task", "monitor_task")
        if driver.wait(timeout=600) != 0:
            truth.failed("driver", f"the driver ended with {driver.returncode}")
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
