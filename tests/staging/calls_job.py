"""The driver of calls.py: 200 calls of 60 to 120 ms, then an actor that leaks.

The actor keeps 40 MiB in each call, and does not return from its seventh call.
"""

import json
import os
import random
import sys
import time

import ray

from truth import Roll


@ray.remote(num_cpus=0.01)
class Stepper:
    def step(self, seconds):
        time.sleep(seconds)

    def other(self, seconds):
        time.sleep(seconds)


@ray.remote(num_cpus=1)
def work(seconds):
    time.sleep(seconds)


@ray.remote(num_cpus=0.01)
class Leaker:
    def __init__(self):
        self.kept = []

    def fill(self, mib, stays=False):
        # A working set that is freed, in addition to the memory that is kept.
        scratch = bytearray(b"x") * (2 * mib << 20)
        self.kept.append(bytearray(b"x") * (mib << 20))
        del scratch
        if stays:
            Roll(os.environ["RAYTRACE_STAGE"]).announce("leaker")
            time.sleep(600)


ray.init(log_to_driver=False, logging_level="ERROR")
draw = random.Random(7)
length = lambda: draw.uniform(0.06, 0.12)
steppers = [Stepper.remote() for _ in range(2)]
calls = [one.step.remote(length()) for _ in range(40) for one in steppers]
calls += [one.other.remote(length()) for _ in range(20) for one in steppers]
calls += [work.remote(length()) for _ in range(80)]
ray.get(calls)
leaker = Leaker.remote()
for _ in range(6):
    ray.get(leaker.fill.remote(40))
last = leaker.fill.remote(40, stays=True)
# Workers report their calls to the GCS once a second.
time.sleep(3)
ray.timeline(sys.argv[1])
print(json.dumps("filled"), flush=True)
sys.stdin.read()
