"""A job that `raytrace doctor` would have warned of: an actor writes batches into a /dev/shm that is too small.

Memory of /dev/shm is taken when it is written. The write dies of SIGBUS, and no message says why.
"""

import mmap
import os
import time

import ray

MIB = 1 << 20


@ray.remote
class PolicyModelActor:
    def fit(self):
        """Shared memory as torch's DataLoader makes it: a file that is cut to size, mapped, then filled."""
        files = []
        for number in range(8):
            path = f"/dev/shm/torch_{os.getpid()}_{number}"
            with open(path, "wb+") as file:
                file.truncate(16 * MIB)
                files.append(mmap.mmap(file.fileno(), 16 * MIB))
            os.unlink(path)
            files[-1].write(b"\1" * (16 * MIB))
            time.sleep(0.5)


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    ray.get(PolicyModelActor.remote().fit.remote())
