"""Stages thousands of short subprocesses of a worker, and 200 that it kills at the same moment.

At the end it runs `ray stop`.
"""

import argparse
import sys

from cluster import BIN, Cluster
from truth import Truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--short", type=int, default=5000)
    parser.add_argument("--sleepers", type=int, default=200)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    # In its own pid namespace, `ray stop` ends only this cluster.
    with Cluster("stress", pid_namespace=True) as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        print("ready", flush=True)
        sys.stdin.readline()
        job = cluster.python("stress_job.py", str(arguments.short), str(arguments.sleepers))
        if job.wait(timeout=300) != 0:
            truth.failed("job", f"the job ended with {job.returncode}")
        cluster.run([f"{BIN}/ray", "stop"], check=False)
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
