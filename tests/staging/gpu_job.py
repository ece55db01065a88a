"""Makes the fake NVML report that this process holds 60 GiB of a GPU, then 20 GiB.

Then it exits with status 3.
"""

import os
import sys
import time

GIB = 1 << 30
FILE = os.environ["FAKE_NVML"]


def holds(gibibytes):
    text = f"{80 * GIB} {gibibytes * GIB}\n{os.getpid()} {gibibytes * GIB}\n"
    with open(FILE + ".new", "w") as file:
        file.write(text)
    os.rename(FILE + ".new", FILE)


for gibibytes in (60, 20):
    holds(gibibytes)
    time.sleep(3)
sys.exit(3)
