"""Tasks that hold 600 MiB each, one for each CPU: tasks.py [num_cpus=2 | memory=700000000]"""

import sys
import time

import numpy
import ray

MIB = 1 << 20
# The options of its @ray.remote.
OPTIONS = {key: float(value) for key, value in (one.split("=") for one in sys.argv[1:])}


def score(part):
    table = numpy.ones(600 * MIB // 8)
    time.sleep(6)
    return float(table[part])


ray.init(address="auto", log_to_driver=False)
task = ray.remote(max_retries=0, **OPTIONS)(score)
print("parts", sum(ray.get([task.remote(part) for part in range(16)])), "finished")
