"""The driver of timeline.py."""

import os
import sys
import time

import ray

from truth import Roll


@ray.remote(num_cpus=0.1)
class Trainer:
    def step(self):
        time.sleep(0.2)


@ray.remote(num_cpus=0.1)
def work():
    time.sleep(0.2)


@ray.remote(num_cpus=0.1, max_retries=0)
def doomed(folder):
    with open(os.path.join(folder, "worker_id"), "w") as file:
        file.write(ray.get_runtime_context().get_worker_id())
    Roll(folder).announce("victim")
    time.sleep(60)


ray.init(log_to_driver=False, logging_level="ERROR")
trainer = Trainer.remote()
victim = doomed.remote(sys.argv[1])
ray.get([trainer.step.remote() for _ in range(3)] + [work.remote() for _ in range(3)])
try:
    ray.get(victim)
except ray.exceptions.WorkerCrashedError:
    pass
# Workers report their tasks to the GCS once a second.
time.sleep(3)
ray.timeline(sys.argv[2])
