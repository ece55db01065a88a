"""The second driver of warned.py: an actor that grows by 60 MiB a second, but not to the limit.

    python warned_job.py CGROUP MOST

The first line of standard input starts the actor. The second line makes it free its memory.
"""

import os
import sys
import time

import ray

MIB = 1 << 20
RATE = 60
CGROUP, MOST = sys.argv[1], int(sys.argv[2])


def used():
    """Returns the memory that is charged to the cgroup that Ray takes for the machine.

    Ray counts as much or less.
    """
    for name in ("memory.current", "memory.usage_in_bytes"):
        path = os.path.join(CGROUP, name)
        if os.path.exists(path):
            with open(path) as file:
                return int(file.read())
    raise RuntimeError(f"no memory controller at {CGROUP}")


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
class Loader:
    def load(self, stop):
        kept, last = [], time.monotonic()
        while not os.path.exists(stop):
            time.sleep(0.1)
            # Do not catch up after a delay on a busy machine. A jump would not be an approach.
            now = time.monotonic()
            grown = int(min(now - last, 0.3) * RATE * MIB)
            last = now
            if used() + grown < MOST:
                kept.append(bytearray(b"x") * grown)


ray.init(log_to_driver=False, logging_level="ERROR")
sys.stdin.readline()
stop = os.path.join(os.environ["RAYTRACE_STAGE"], "stop")
loader = Loader.remote()
loading = loader.load.remote(stop)
sys.stdin.readline()
open(stop, "w").close()
ray.get(loading)
sys.stdin.read()
