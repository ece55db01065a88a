"""Parallelism and the object store: eight ranks grow until Ray's memory monitor kills one.

It takes verl's arguments, but its ranks are actors that only hold a thousandth of verl's memory. It
prints what each step keeps, and the number of each step, for comparison with the report."""

import sys
import time

import ray

from memory import hold

MODEL, SEQUENCE, BATCH = 60, 30, 40


@ray.remote
class WorkerDict:
    def init_model(self):
        self.model = hold(MODEL)
        self.sequences = []

    def generate_sequences(self, batch):
        # Long prompts and responses of each step are kept for the update.
        self.sequences.append(hold(SEQUENCE))
        time.sleep(0.5)
        return len(batch)


def argument(name):
    return next(value.partition("=")[2] for value in sys.argv if value.startswith(f"{name}="))


def main():
    ray.init(log_to_driver=False)
    ranks = [WorkerDict.options(name=f"WorkerDict_{rank}").remote() for rank in range(int(argument("trainer.n_gpus_per_node")))]
    ray.get([rank.init_model.remote() for rank in ranks])
    print(f"{SEQUENCE} MiB a call", flush=True)
    batch = ray.put(bytes(hold(BATCH)))
    for call in range(1, 60):
        print(f"call {call}", flush=True)
        ray.get([rank.generate_sequences.remote(batch) for rank in ranks])


if __name__ == "__main__":
    main()
