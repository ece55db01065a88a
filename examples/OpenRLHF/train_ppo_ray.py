"""An actor writes batches into a /dev/shm that is too small. `raytrace doctor` warns of this.

Memory of /dev/shm is allocated when it is written. The process gets SIGBUS, without any message.
"""

import mmap
import os
import time

import ray

MIB = 1 << 20


@ray.remote
class PolicyModelActor:
    def fit(self):
        """Makes shared memory as torch's DataLoader does: truncates a file, maps it, fills it."""
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
