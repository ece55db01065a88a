"""`allocate_memory` of Ray's memory guide: 15 tasks at once, or half as many with 2 CPUs each."""

import argparse
import os
import tempfile
import time

import ray

from memory import hold

CHUNK, CHUNKS = 10, 17


@ray.remote
def allocate_memory(arrived, together):
    """Waits until all concurrent tasks have started, then grows at the same rate as they do."""
    open(os.path.join(arrived, str(os.getpid())), "w").close()
    while len(os.listdir(arrived)) < together:
        time.sleep(0.1)
    chunks = []
    for _ in range(CHUNKS):
        chunks.append(hold(CHUNK))
        time.sleep(0.5)
    time.sleep(3)
    return sum(map(len, chunks))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-tasks", type=int, required=True)
    parser.add_argument("--num-cpus", type=int, required=True)
    arguments = parser.parse_args()
    ray.init(log_to_driver=False)
    together = int(ray.cluster_resources()["CPU"]) // arguments.num_cpus
    allocate = allocate_memory.options(num_cpus=arguments.num_cpus)
    with tempfile.TemporaryDirectory() as arrived:
        ray.get([allocate.remote(arrived, min(together, arguments.num_tasks)) for _ in range(arguments.num_tasks)])
