"""Runs two processes whose memory peak no sample of the recorder sees.

One grows by 1 GiB within a second. The other one lives for a fifth of a second and allocates
500 MiB. Prints a JSON line for each, with the kernel's own maximum (ru_maxrss).
"""

import json
import mmap
import os
import time

MIB = 1 << 20
STEP = 50 * MIB


def take(size):
    kept = []
    for _ in range(0, size, STEP):
        kept.append(mmap.mmap(-1, STEP, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE))
    return kept


def burst(label, size):
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        kept = take(size)
        del kept
        os._exit(0)
    _, _, usage = os.wait4(child, 0)
    lived = time.monotonic() - began
    print(json.dumps({"label": label, "pid": child, "peak": usage.ru_maxrss * 1024, "seconds": lived}), flush=True)


def main():
    # Start at any time between two samples of the recorder.
    time.sleep(2)
    burst("growth", 1050 * MIB)
    burst("short", 500 * MIB)
    time.sleep(1)


if __name__ == "__main__":
    main()
