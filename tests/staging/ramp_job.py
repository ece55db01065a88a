"""The driver of ramp.py: an actor that grows by 80 MiB a second."""

import os
import sys
import time

import ray

from truth import Roll

MIB = 1 << 20
RATE = 80
STEP = 0.1
LATE = 0.7


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Grower:
    def __init__(self):
        self.kept = []
        Roll(os.environ["RAYTRACE_STAGE"]).announce("grower")

    def fill(self, mib):
        self.kept.append(bytearray(b"x") * (mib * MIB))

    def ramp(self):
        began = last = time.monotonic()
        held = 0
        while True:
            now = time.monotonic()
            if now - last > LATE:
                # The ramp is not steady, because the machine gave this process no CPU time.
                open(os.path.join(os.environ["RAYTRACE_STAGE"], "late"), "w").close()
            last = now
            due = int((now - began) * RATE) - held
            if due > 0:
                self.fill(due)
                held += due
            time.sleep(STEP)


ray.init(log_to_driver=False, logging_level="ERROR")
made = Grower.remote()
try:
    ray.get(made.ramp.remote())
except ray.exceptions.RayError:
    pass
sys.stdin.read()
