"""A plain training loop that saves each step while a raytrace warning is active.

Its only actor grows with each step.

    python loop.py WARNINGS CHECKPOINT STEPS
"""

import json
import os
import sys
import time

import ray
from warned import Warnings

MIB = 1 << 20


@ray.remote(max_restarts=-1)
class Trainer:
    def __init__(self, warnings, checkpoint):
        self.warned, self.checkpoint, self.kept, self.step = Warnings(warnings), checkpoint, [], 0
        if os.path.exists(checkpoint):
            with open(checkpoint) as file:
                self.step = json.load(file)["step"]

    def train(self):
        batch = bytearray(b"x") * (400 * MIB)  # needed only during the step
        time.sleep(1.3)
        self.kept.append(batch[: 220 * MIB])  # kept by mistake
        del batch
        time.sleep(0.7)
        self.step += 1
        if self.warned.active() or self.step % 1000 == 0:
            self.save()
        return self.step

    def save(self):
        with open(self.checkpoint + ".new", "w") as file:
            json.dump({"step": self.step}, file)
        # If the process is killed before this line, the old checkpoint stays complete.
        os.replace(self.checkpoint + ".new", self.checkpoint)


if __name__ == "__main__":
    warnings, checkpoint, steps = sys.argv[1:]
    ray.init(log_to_driver=False)
    trainer, done = Trainer.remote(warnings, checkpoint), 0
    while done < int(steps):
        try:
            done = ray.get(trainer.train.remote())
            print("step", done, flush=True)
        except ray.exceptions.RayError as error:
            print("killed after step", done, type(error).__name__, flush=True)
