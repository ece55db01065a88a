"""Stages the kill matrix on a private cluster, and records what it did to each process.

    python matrix.py --truth FILE [--repeat N] [--only KIND…] [--user UID]
        [--pid-namespace] [--hold] [--nodes]
"""

import argparse
import os
import sys

import nodes
from cluster import Cluster
from truth import Roll, Truth


def workers(arguments, truth):
    """Stages deaths of workers and their subprocesses, all on one cluster."""
    with Cluster("matrix", arguments.user, arguments.pid_namespace) as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        roll = Roll(os.path.join(cluster.folder, "roll")).folder
        command = ["drive.py", "--truth", truth.path, "--roll", roll, "--raylet", str(cluster.raylet["pid"])]
        command += ["--repeat", str(arguments.repeat)]
        command += ["--only", *arguments.only] if arguments.only else []
        driver = cluster.python(*command)
        if driver.wait(timeout=3600) != 0:
            truth.failed("driver", f"the driver ended with {driver.returncode}")
        if arguments.hold:
            print("staged", flush=True)
            sys.stdin.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=None, help="kinds; all without it")
    parser.add_argument("--user", type=int, default=None, help="run Ray as this uid, without capabilities")
    parser.add_argument("--pid-namespace", action="store_true")
    parser.add_argument("--hold", action="store_true", help="keep the cluster until standard input ends")
    parser.add_argument("--nodes", action="store_true", help="the deaths that take the whole node along")
    arguments = parser.parse_args()
    truth = Truth(os.path.abspath(arguments.truth))
    if arguments.nodes:
        nodes.run(truth, arguments)
    else:
        workers(arguments, truth)


if __name__ == "__main__":
    main()
