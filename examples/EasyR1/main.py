"""Offloads parameters to the host in each step and loads them back, until memory runs out.

Only the host's half is simulated, not the GPU's. After a rank was killed, another one waits for it
and does not answer, as in a collective on a machine that is busy reclaiming memory. The driver's
last message is therefore a keepalive timeout, which is not the cause."""

import os
import signal
import subprocess
import sys
import time

import ray

from memory import hold

PARAMETERS, OPTIMIZER, KEPT, RANKS, STEPS = 110, 90, 20, 4, 7


@ray.remote
class WorkerDict:
    def __init__(self, offload):
        self.offload = offload
        self.kept = []

    def pid(self):
        return os.getpid()

    def update_actor(self):
        """Runs on the GPU. On the host, it only adds what one step keeps."""
        self.kept.append(hold(KEPT))
        time.sleep(0.5)

    def offload_model(self):
        if self.offload:
            self.host = [hold(PARAMETERS), hold(OPTIMIZER)]
        time.sleep(1)

    def load_model(self):
        self.host = None
        time.sleep(0.5)


def survivor(ranks):
    """Returns a rank that answers, and its pid."""
    for rank in ranks:
        try:
            return rank, ray.get(rank.pid.remote())
        except ray.exceptions.RayError:
            continue
    raise SystemExit("no rank is left")


def stall(pid, seconds):
    """Stops a process for some seconds. Nothing in it answers then, not even gRPC's threads."""
    os.kill(pid, signal.SIGSTOP)
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {pid}"])


def main():
    offload = "worker.actor.offload.offload_params=true" in sys.argv
    ray.init(log_to_driver=False)
    ranks = [WorkerDict.remote(offload) for _ in range(RANKS)]
    ray.get([rank.pid.remote() for rank in ranks])
    step = 0
    try:
        for step in range(1, STEPS + 1):
            ray.get([rank.update_actor.remote() for rank in ranks])
            ray.get([rank.offload_model.remote() for rank in ranks])
            ray.get([rank.load_model.remote() for rank in ranks])
    except ray.exceptions.RayError as error:
        print(f"step {step}: {type(error).__name__}: {error}")
        rank, pid = survivor(ranks)
        stall(pid, 35)
        ray.get(rank.update_actor.remote())


if __name__ == "__main__":
    main()
