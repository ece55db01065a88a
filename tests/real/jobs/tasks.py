"""A plain job whose tasks hold 600 MiB each, as many at once as there are CPUs."""

import time

import numpy
import ray

MIB = 1 << 20


@ray.remote(max_retries=2)
def score(part):
    table = numpy.ones(600 * MIB // 8)
    time.sleep(6)
    return float(table[part])


ray.init(address="auto", log_to_driver=False)
print("parts", sum(ray.get([score.remote(part) for part in range(16)])), "finished")
