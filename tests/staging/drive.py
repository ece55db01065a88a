"""A driver that stages deaths of workers and their subprocesses on a running cluster."""

import argparse
import concurrent.futures
import os
import traceback

import ray

import descendants
import workers
from cgroup import MEMORY, Cgroup
from truth import PATIENCE, Roll, Truth, process, wait_gone

MIB = 1 << 20
TOGETHER = {**workers.KINDS, **descendants.KINDS}
ALONE = {**workers.ALONE, **descendants.ALONE}


class Stage:
    """Holds what a kind needs to stage its death."""

    def __init__(self, arguments):
        self.truth = Truth(arguments.truth)
        self.roll = Roll(arguments.roll)
        self.raylet = process(arguments.raylet)
        self.version = tuple(int(part) for part in ray.__version__.split(".")[:2])

    def raylet_as_sender(self):
        return {"pid": self.raylet["pid"], "comm": "raylet", "mechanism": "kill"}

    def small_cgroup(self, label, extra=0):
        """Makes a cgroup with a limit of 16 MiB, and `extra` MiB more."""
        # The limit is small: thirty cgroups stay far below the threshold of Ray's monitor.
        limit = (16 + extra) * MIB
        cgroup = Cgroup(f"{MEMORY}/small/{label.replace('/', '-')}", limit)
        return cgroup, limit

    def ended(self, label, victim, seconds=PATIENCE):
        """Fails the staging if the process is still alive."""
        if not wait_gone(victim, seconds):
            self.truth.failed(label, f"pid {victim['pid']} was still alive {seconds} s after it should have died")


def run(stage, kinds, name, label):
    try:
        kinds[name](stage, label)
    except Exception:  # noqa: BLE001 - one kind that cannot be staged does not stop the others
        stage.truth.failed(label, traceback.format_exc())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--roll", required=True)
    parser.add_argument("--raylet", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=None, help="kinds; all without it")
    arguments = parser.parse_args()
    ray.init(log_to_driver=False, logging_level="ERROR", namespace="staging")
    stage = Stage(arguments)
    stage.truth.write(kind="driver", label="driver", **process(os.getpid()))
    wanted = lambda name: arguments.only is None or name in arguments.only  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(arguments.threads) as pool:
        for number in range(arguments.repeat):
            for name in filter(wanted, TOGETHER):
                pool.submit(run, stage, TOGETHER, name, f"{name}/{number}")
    for number in range(arguments.repeat):
        for name in filter(wanted, ALONE):
            run(stage, ALONE, name, f"{name}/{number}")
    ray.shutdown()


if __name__ == "__main__":
    main()
