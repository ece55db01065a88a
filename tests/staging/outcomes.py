"""Stages jobs that end in different ways.

They include a task that Ray retries, an actor that Ray restarts, and an actor whose death the
driver does not survive.
"""

import argparse
import subprocess
import time

from cluster import Cluster
from truth import Roll, Truth, wait_gone

# What the driver does, the outcome of the job, and whether the staged death ended it.
KINDS = {
    "retried_task": ("succeeded", False),
    "restarted_actor": ("succeeded", False),
    "fatal_actor": ("failed", True),
    "caught_death": ("succeeded", False),
    "own_error": ("failed", None),
    # This job starts its own Ray, which it shuts down when it fails.
    "own_ray": ("failed", True),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    truth = Truth(parser.parse_args().truth)
    with Cluster("outcomes") as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        roll = Roll(cluster.folder + "/roll")
        for kind, (outcome, ended) in KINDS.items():
            job = cluster.python("outcome_job.py", roll.folder, kind, stderr=subprocess.DEVNULL)
            driver = roll.wait(f"{kind}_driver")
            if kind != "own_error":
                victim = roll.wait(kind)
                truth.death(kind, victim, "exit", exit_code=4, certainty="proven", sender=None)
            code = job.wait(timeout=120)
            if (code == 0) != (outcome == "succeeded"):
                truth.failed(kind, f"the driver ended with {code}")
            if ended is None:
                truth.death(kind, driver, "exit", exit_code=1)
            cause = None if ended is False else kind
            truth.write(kind="job", driver=driver, outcome=outcome, cause=cause)
            wait_gone(driver)
            time.sleep(1)


if __name__ == "__main__":
    main()
