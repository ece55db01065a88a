"""The second driver of warned.py: an actor that grows by 50 MiB a second and, when told, gives all back."""

import os
import sys
import time

import ray

MIB = 1 << 20
# Below the threshold by so much that nobody is killed, and near enough to be told.
MOST = 2100 * MIB
RATE = 50


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Loader:
    def load(self, stop):
        kept = []
        began = time.monotonic()
        while not os.path.exists(stop):
            due = min(int((time.monotonic() - began) * RATE) * MIB, MOST)
            if due > sum(map(len, kept)):
                kept.append(bytearray(b"x") * (due - sum(map(len, kept))))
            time.sleep(0.1)


ray.init(log_to_driver=False, logging_level="ERROR")
sys.stdin.readline()
stop = os.path.join(os.environ["RAYTRACE_STAGE"], "stop")
loader = Loader.remote()
loading = loader.load.remote(stop)
sys.stdin.readline()
open(stop, "w").close()
ray.get(loading)
sys.stdin.read()
