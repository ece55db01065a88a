"""Ray Serve with two clients: a replica that keeps answers, or too many replicas: serve.py keep|let-go|large [num_replicas=2]"""

import sys
import threading
import time

import numpy
import ray
from ray import serve

MIB = 1 << 20
KEPT = 1_000_000 if sys.argv[1] == "keep" else 1
# What a replica holds from its start, and how many there are.
MODEL, REPLICAS = (700, 6) if sys.argv[1] == "large" else (100, 1)
# The options of its @serve.deployment.
OPTIONS = {"num_replicas": REPLICAS, **{key: int(value) for key, value in (one.split("=") for one in sys.argv[2:])}}
REQUESTS = 150


@serve.deployment(ray_actor_options={"num_cpus": 0.5}, **OPTIONS)
class Embedder:
    def __init__(self, model, kept):
        self.model = numpy.ones(model * MIB // 8)
        self.kept = kept
        self.cache = {}

    def __call__(self, number):
        time.sleep(0.1)
        self.cache[number % self.kept] = answer = numpy.ones(12 * MIB // 8)
        return float(answer[0] * self.model[0])


def client(handle, first, failed):
    try:
        for number in range(first, 2 * REQUESTS, 2):
            handle.remote(number).result(timeout_s=60)
    except Exception as error:
        failed.append(error)


ray.init(address="auto", log_to_driver=False)
handle = serve.run(Embedder.bind(MODEL, KEPT))
failed = []
clients = [threading.Thread(target=client, args=(handle, first, failed)) for first in (0, 1)]
for one in clients:
    one.start()
for one in clients:
    one.join()
if failed:
    raise failed[0]
serve.shutdown()
print("requests", 2 * REQUESTS, "finished")
