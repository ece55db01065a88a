"""Stages a named actor in a placement group, and kills it when standard input has a line.

With --token, the GCS answers no request without the token.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import kill
from cluster import Cluster
from truth import Truth, wait_gone

SETTINGS = {"RAY_memory_monitor_refresh_ms": "0"}


def give(cluster, token):
    """Writes the token to the file that Ray reads if no environment variable has a token."""
    folder = os.path.join(cluster.folder, ".ray")
    os.makedirs(folder)
    with open(os.path.join(folder, "auth_token"), "w") as file:
        file.write(token)
    cluster.environment["RAY_AUTH_MODE"] = "token"
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        cluster.environment.pop(name, None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--token")
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    with Cluster("gcs", settings=SETTINGS) as cluster:
        if arguments.token:
            give(cluster, arguments.token)
        cluster.start(cpus=1)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        job = cluster.python("gcs_job.py", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        who, ids = json.loads(next(line for line in job.stdout if line.startswith("[{")))
        truth.write(kind="gcs", address=cluster.address, **ids)
        print("ready", flush=True)
        sys.stdin.readline()
        sender = kill.by_shell(who, 9)
        truth.death("keeper", who, "signal", signal=9, sender=sender, certainty="proven")
        wait_gone(who)
        time.sleep(1)
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
