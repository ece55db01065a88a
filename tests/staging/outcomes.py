"""Stages jobs that end in different ways.

They include a task that Ray retries, an actor that Ray restarts, an actor whose death the driver
does not survive, and an actor whose subprocess the kernel kills for memory.
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
    # The call of the actor fails with BrokenProcessPool. The actor lives on.
    "broken_pool": ("failed", True),
    # This job starts its own Ray, which it shuts down when it fails.
    "own_ray": ("failed", True),
}


# More than a subprocess takes that has done nothing yet.
POOL_LIMIT = 200 << 20


def fill_cgroup(cluster, roll, kind):
    """Moves the actor of the job into a small cgroup, and lets it go on there."""
    actor = roll.wait(f"{kind}_actor")
    cgroup = cluster.small.child(kind, POOL_LIMIT)
    cgroup.add(actor["pid"])
    roll.announce(f"{kind}_limited")
    return cgroup


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
            if kind == "broken_pool":
                cgroup = fill_cgroup(cluster, roll, kind)
                victim = roll.wait(kind)
                truth.death(
                    kind, victim, "kernel-oom-memcg", signal=9, sender=None,
                    limit_bytes=POOL_LIMIT, role="descendant", certainty="proven",
                )
            elif kind != "own_error":
                victim = roll.wait(kind)
                truth.death(kind, victim, "exit", exit_code=4, certainty="proven", sender=None)
            code = job.wait(timeout=120)
            if (code == 0) != (outcome == "succeeded"):
                truth.failed(kind, f"the driver ended with {code}")
            if ended is None:
                truth.death(kind, driver, "exit", exit_code=1)
            cause = None if ended is False else kind
            truth.write(kind="job", driver=driver, outcome=outcome, cause=cause)
            if kind == "broken_pool" and cgroup.oom_kills() != 1:
                truth.failed(kind, f"the kernel counts {cgroup.oom_kills()} kills in {cgroup.path}")
            wait_gone(driver)
            time.sleep(1)


if __name__ == "__main__":
    main()
