"""An actor whose only call is the whole job, and keeps its data: python loop.py [keep|let-go]"""
import sys

import ray

KEEPS = sys.argv[1] == "keep"


@ray.remote
class Trainer:
    def __init__(self):
        self.seen = []

    def step(self):
        batch = bytearray(b"x" * (24 << 20))
        if KEEPS:
            self.seen.append(batch)
        return len(batch)

    def run(self, steps):
        import time

        for _ in range(steps):
            self.step()
            time.sleep(0.15)
        return steps


ray.init(address="auto", log_to_driver=False)
print("steps", ray.get(Trainer.remote().run.remote(80)))
