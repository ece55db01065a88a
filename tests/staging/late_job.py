"""The driver of late.py: prints the identities of its actors, and waits."""

import json
import sys

import ray

from truth import myself


@ray.remote(num_cpus=0.01)
class Sleeper:
    def who(self):
        context = ray.get_runtime_context()
        ids = {
            "worker_id": context.get_worker_id(),
            "job_id": context.get_job_id(),
            "actor_class": "Sleeper",
            "role": "worker",
        }
        return myself(), ids


ray.init(log_to_driver=False, logging_level="ERROR")
sleepers = [Sleeper.remote() for _ in range(int(sys.argv[1]))]
print(json.dumps(ray.get([one.who.remote() for one in sleepers])), flush=True)
sys.stdin.read()
