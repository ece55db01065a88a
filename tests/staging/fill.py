"""Fills its own small memory cgroup nearly to the limit, and exits by itself.

It allocates anonymous memory and a file in /dev/shm.
"""

import mmap
import os
import time

from cgroup import MEMORY, Cgroup

LIMIT, ANONYMOUS, SHARED, STEP = 300 << 20, 200 << 20, 60 << 20, 2 << 20


def main():
    # Version 2 allows a process in this cgroup, because the cgroup has no children.
    cgroup = Cgroup(f"{MEMORY}/raytrace-fill-{os.getpid()}", LIMIT)
    cgroup.add(os.getpid())
    path = f"/dev/shm/raytrace-fill-{os.getpid()}"
    try:
        # Stay far from the limit at first.
        time.sleep(2)
        with open(path, "wb") as file:
            for _ in range(SHARED // STEP):
                file.write(b"x" * STEP)
        kept = []
        for _ in range(ANONYMOUS // STEP):
            kept.append(mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE))
            time.sleep(0.04)
        time.sleep(1.5)
    finally:
        if os.path.exists(path):
            os.unlink(path)
        # Move this process back to the root of the hierarchy. Then the cgroup can be removed.
        Cgroup(os.path.dirname(cgroup.path)).add(os.getpid())
        os.rmdir(cgroup.path)


if __name__ == "__main__":
    main()
