"""Kills one of several tasks, and writes Ray's timeline of all of them."""

import argparse
import time

import kill
from cluster import Cluster
from truth import Roll, Truth, wait_gone


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--timeline", required=True)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    with Cluster("timeline", settings={"RAY_memory_monitor_refresh_ms": "0"}) as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        roll = Roll(cluster.folder + "/roll")
        job = cluster.python("timeline_job.py", roll.folder, arguments.timeline)
        victim = roll.wait("victim")
        with open(roll.folder + "/worker_id") as file:
            worker_id = file.read()
        time.sleep(0.5)
        sender = kill.by_shell(victim, 9)
        truth.death("victim", victim, "signal", signal=9, sender=sender, certainty="proven", worker_id=worker_id)
        wait_gone(victim)
        if job.wait(timeout=120) != 0:
            truth.failed("job", f"it ended with {job.returncode}")
        time.sleep(1)


if __name__ == "__main__":
    main()
