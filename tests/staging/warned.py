"""Runs the loop of examples/warn on its own cluster.

    python warned.py --truth FILE --warnings FILE --checkpoint FILE --steps FILE
        --recordings FOLDER --raytrace PROGRAM --collected FOLDER

The loop's actor is killed, and the loop continues. Then another actor comes near the limit and
frees its memory. Last, the driver of examples/fleet fetches the recordings.
"""

import argparse
import os
import subprocess
import sys

from cgroup import MEMORY
from cluster import BIN, HERE, Cluster
from truth import Truth, wait_gone

MIB = 1 << 20
# The limit of the cgroup that Ray takes for the machine.
MACHINE = 3072 * MIB
THRESHOLD = 0.95
# The second approach to the limit ends here. This is far enough below the threshold to avoid a
# kill, and near enough for a warning.
NEAREST = int(0.94 * THRESHOLD * MACHINE)
# The limit is hit in the tenth step or soon after.
STEPS = 12
# Timeout of a wait in seconds. A busy machine takes many times as long as an idle one.
PATIENCE = 600
LOOP = os.path.join(HERE, "../../examples/warn/loop.py")


def killed(cluster, truth, arguments):
    """Runs the loop until its first trainer has been killed."""
    command = [f"{BIN}/python", LOOP, arguments.warnings, arguments.checkpoint, str(STEPS)]
    environment = {**cluster.environment, "RAY_ADDRESS": cluster.address}
    with open(arguments.steps, "w") as steps:
        job = cluster.popen(command, env=environment, stdout=steps)
    victim = cluster.one("ray::Trainer")
    if not wait_gone(victim, PATIENCE):
        raise RuntimeError("the trainer was not killed")
    truth.death("trainer", victim, "ray-memory-monitor", signal=9, certainty="proven")
    if job.wait(PATIENCE) != 0:
        raise RuntimeError(f"the loop ended with {job.returncode}")


def collect(cluster, arguments):
    program = os.path.join(HERE, "../../examples/fleet/collect.py")
    given = [f"--{name}={getattr(arguments, name)}" for name in ("recordings", "raytrace")]
    command = [f"{BIN}/python", program, arguments.collected, *given]
    done = cluster.popen(command, env={**cluster.environment, "RAY_ADDRESS": cluster.address})
    if done.wait(PATIENCE) != 0:
        raise RuntimeError(f"collect.py ended with {done.returncode}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("truth", "warnings", "checkpoint", "steps", "recordings", "raytrace", "collected"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    truth = Truth(arguments.truth)
    with Cluster("warned", settings={"RAY_memory_usage_threshold": str(THRESHOLD)}) as cluster:
        cluster.cgroup.limit(MACHINE)
        cluster.start(cpus=2)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        print("ready", flush=True)
        sys.stdin.readline()
        # Connect the second driver before it is needed. Its first argument is the path at which a
        # cluster sees its own cgroup.
        given = [MEMORY, str(NEAREST)]
        passing = cluster.python("warned_job.py", *given, stdin=subprocess.PIPE, text=True)
        killed(cluster, truth, arguments)
        # The warning must be over before the next approach begins.
        print("survived", flush=True)
        sys.stdin.readline()
        passing.stdin.write("\n")
        passing.stdin.flush()
        loader = cluster.one("ray::Loader")
        # The actor is told to free its memory once a warning is active.
        print("again", flush=True)
        sys.stdin.readline()
        truth.alive("loader", loader)
        passing.stdin.write("\n")
        passing.stdin.flush()
        collect(cluster, arguments)
        print("passed", flush=True)
        sys.stdin.readline()
        passing.stdin.close()
        passing.wait()


if __name__ == "__main__":
    main()
