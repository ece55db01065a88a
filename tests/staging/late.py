"""Workers that lived before the recorder came: killed when standard input has a line."""

import argparse
import json
import subprocess
import sys
import time

import kill
from cluster import Cluster
from truth import Truth, wait_gone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    with Cluster("late", settings={"RAY_memory_monitor_refresh_ms": "0"}) as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        job = cluster.python(
            "late_job.py", str(arguments.workers), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        known = json.loads(job.stdout.readline())
        # Their exec must be long past.
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
