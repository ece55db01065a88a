"""The driver of steady.py, with actors that allocate memory and free most of it.

In each step, every actor allocates memory, computes, and frees most of the memory. One of them also
puts an object.
"""

import json
import os
import sys
import threading
import time

import ray

MIB = 1 << 20
# The number of objects that an actor keeps, and the bytes that it allocates in a step.
KEPT = 8
TAKEN = 2 * MIB


@ray.remote(num_cpus=0.01, max_restarts=-1, max_task_retries=-1)
class Trainer:
    def __init__(self):
        self.kept = []

    def step(self):
        self.kept.append(bytearray(b"\1") * TAKEN)
        del self.kept[:-KEPT]
        return sum(number * number for number in range(20_000))

    def put(self):
        return ray.put(bytes(MIB))

    def die(self):
        os.kill(os.getpid(), 9)


def main():
    workers, kill_every, pause = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    ray.init(log_to_driver=False, logging_level="ERROR")
    trainers = [Trainer.remote() for _ in range(workers)]
    ray.get([one.step.remote() for one in trainers])
    print("ready", ray._private.worker.global_worker.node.get_session_dir_path(), flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    began = told = killed = time.perf_counter()
    steps = 0
    while not ended.wait(pause):
        ray.get([one.step.remote() for one in trainers])
        ray.get(trainers[steps % workers].put.remote())
        steps += 1
        now = time.perf_counter()
        if now - told >= 1:
            told = now
            print(json.dumps({"steps": steps, "seconds": now - began}), flush=True)
        if kill_every and now - killed >= kill_every:
            killed = now
            # The call fails with its actor. Without this option, Ray would retry it on the
            # restarted actor.
            trainers[steps % workers].die.options(max_task_retries=0).remote()


if __name__ == "__main__":
    main()
