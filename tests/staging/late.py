"""Starts workers before the recorder, and kills them when standard input has a line."""

import argparse
import json
import subprocess
import sys
import time

import kill
from cluster import LIMIT, Cluster
from truth import Truth, wait_gone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    # A worker holds about 100 MiB.
    limit = LIMIT + arguments.workers * (128 << 20)
    with Cluster("late", settings={"RAY_memory_monitor_refresh_ms": "0"}, limit=limit) as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        job = cluster.python(
            "late_job.py", str(arguments.workers), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # Ray's own warnings about so many workers come first.
        known = json.loads(next(line for line in job.stdout if line.startswith("[[")))
        # The exec of the workers must be long past when they are killed.
        time.sleep(1)
        print("ready", flush=True)
        sys.stdin.readline()
        for number, (who, ids) in enumerate(known):
            sender = kill.by_shell(who, 9)
            truth.death(f"late/{number}", who, "signal", signal=9, sender=sender, certainty="proven", **ids)
            wait_gone(who)
        time.sleep(1)
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
