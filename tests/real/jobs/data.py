"""Ray Data: a map_batches function keeps all batches, or only the last: data.py keep|let-go"""

import sys

import numpy
import ray

KEPT = 1_000_000 if sys.argv[1] == "keep" else 1


class Embed:
    def __init__(self):
        self.cache = {}

    def __call__(self, batch):
        first = int(batch["id"][0])
        self.cache[first // 1000 % KEPT] = wide = numpy.ones((len(batch["id"]), 4096))
        return {"mean": wide.mean(axis=1)}


ray.init(address="auto", log_to_driver=False)
# Do not restart a dead actor. Otherwise the job would continue with a new one.
ONCE = {"max_restarts": 0, "max_task_retries": 0}
rows = ray.data.range(60_000, override_num_blocks=60)
print("rows", rows.map_batches(Embed, concurrency=1, batch_size=1000, **ONCE).count(), "finished")
