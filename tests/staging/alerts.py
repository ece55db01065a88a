"""Stages the cause of each alert in a child process of a raylet.

    python alerts.py FOLDER

It stages memory use that comes near a limit, a small victim, and more process exits than can be
recorded. The files `near`, `victim` and `flood` in FOLDER each start one of these. The file
`enough` ends the first one.
"""

import os
import subprocess
import sys
import time

from cgroup import Cgroup

MIB = 1 << 20
# The process grows by 8 MiB a second. raytrace forecasts from seven tenths of the limit on, which
# is after 42 s. The process stops growing below the limit.
NEAR = 480 * MIB
STEP = 8 * MIB
MOST = 440 * MIB
# Both processes fit into the limit, until the big one allocates MORE.
LIMIT = 240 * MIB
SMALL, BIG, MORE = 40 * MIB, 150 * MIB, 80 * MIB
# More exits than the kernel's ring buffer holds.
ENDS = 16_000
AT_ONCE = 200


def waits(folder, name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.05)


def child(cgroup, role, folder):
    """Starts a process that is in the cgroup from its start."""
    pid = os.fork()
    if pid == 0:
        cgroup.add(os.getpid())
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), folder, role])
    return pid


def held(size):
    memory = bytearray(size)
    memory[::4096] = b"x" * len(memory[::4096])
    return memory


def grow(folder):
    kept = []
    while not os.path.exists(os.path.join(folder, "enough")):
        if len(kept) * STEP < MOST:
            kept.append(held(STEP))
        time.sleep(1)


def small(_):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    kept = held(SMALL)
    time.sleep(600)
    return kept


def big(_):
    kept = [held(BIG)]
    # The recorder samples each process at least every ten seconds. After this time it knows both
    # and has sampled both.
    time.sleep(15)
    kept.append(held(MORE))
    time.sleep(3)
    return kept


def flood():
    # Fork many at a time. On a busy machine, each wait for a single child takes a scheduler turn.
    for _ in range(ENDS // AT_ONCE):
        for _ in range(AT_ONCE):
            if os.fork() == 0:
                os._exit(0)
        for _ in range(AT_ONCE):
            os.wait()


def main():
    folder = sys.argv[1]
    if len(sys.argv) > 2:
        {"grow": grow, "small": small, "big": big}[sys.argv[2]](folder)
        return
    near = Cgroup.top(f"raytrace-alerts-near-{os.getpid()}", NEAR)
    full = Cgroup.top(f"raytrace-alerts-full-{os.getpid()}", LIMIT)
    try:
        waits(folder, "near")
        growing = child(near, "grow", folder)
        waits(folder, "victim")
        pids = [child(full, role, folder) for role in ("small", "big")]
        for pid in pids:
            os.waitpid(pid, 0)
        waits(folder, "enough")
        os.waitpid(growing, 0)
        waits(folder, "flood")
        flood()
        open(os.path.join(folder, "flooded"), "w").close()
    finally:
        near.destroy()
        full.destroy()
    subprocess.run(["sleep", "600"], check=False)


if __name__ == "__main__":
    main()
