"""Stages calls of known lengths, and an actor that leaks and is killed in its seventh call.

Writes Ray's own timeline beside the truth file.
"""

import argparse
import json
import os
import subprocess

import kill
from cluster import Cluster
from truth import Roll, Truth, wait_gone

LIMIT = 5 << 29


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    timeline = os.path.join(os.path.dirname(arguments.truth), "timeline.json")
    # The leaker keeps more than a twentieth of this limit. Less would not count as a trend.
    with Cluster("calls", settings={"RAY_memory_monitor_refresh_ms": "0"}, limit=LIMIT) as cluster:
        cluster.start(cpus=2)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        job = cluster.python("calls_job.py", timeline, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if json.loads(job.stdout.readline()) != "filled":
            raise RuntimeError("the job did not come to its last call")
        victim = Roll(cluster.folder).wait("leaker")
        sender = kill.by_shell(victim, 9)
        truth.death("leaker", victim, "signal", signal=9, sender=sender, certainty="proven", actor_class="Leaker")
        wait_gone(victim)
        job.stdin.close()
        job.wait()


if __name__ == "__main__":
    main()
