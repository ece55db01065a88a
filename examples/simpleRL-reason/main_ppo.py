"""Keeps memory in each generate step that it should free, until the worker is killed.

Prints the growth per call and each call's number, for comparison with the report.
"""

import os
import time

import ray

from memory import hold

MODEL, PER_CALL = 100, 120


@ray.remote(max_restarts=0)
class WorkerDict:
    def init_model(self):
        self.model = hold(MODEL)
        self.cache = []
        return os.getpid()

    def actor_rollout_generate_sequences(self):
        self.cache.append(hold(PER_CALL))
        time.sleep(1)

    def actor_rollout_update_actor(self):
        """Uses a quarter of that memory and frees it."""
        scratch = hold(PER_CALL // 4)
        time.sleep(0.7)
        return len(scratch)


def main():
    ray.init(log_to_driver=False)
    worker = WorkerDict.remote()
    print(f"pid {ray.get(worker.init_model.remote())}, {PER_CALL} MiB a call", flush=True)
    for call in range(1, 40):
        print(f"call {call}", flush=True)
        ray.get(worker.actor_rollout_generate_sequences.remote())
        ray.get(worker.actor_rollout_update_actor.remote())


if __name__ == "__main__":
    main()
