"""Measures how much slower a training step is beside the recorder.

    steps.py RAYTRACE [PAIRS]

Two ranks keep a core each busy. In each step they compute, take memory and give it back, and wait
for each other without sleeping, so that a step is as slow as the slower rank. Their raylet is a
shell, so Ray is not needed. Other processes of the cluster sleep most of the time.

The recorder is stopped and continued in turns of 1.5 s. A turn beside it is compared with the mean
of the turns before and after it, a control in the same way with the turns without it around. The
kernel's hooks stay attached: what they cost is measured by the other loads.
"""

import ctypes
import mmap
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from recorder import cpu_seconds, start

PAIRS = 100
TURN = 1.5
# Seconds after which a recorder that was continued has read what it missed.
SETTLES = 1.2
# After the attach, the recorder spends time that it has saved for the first seconds.
WARM = 20
OTHERS = 40
LOOPS = 3_000_000
TAKEN = 24 << 20
OTHER = "import time\nx = bytearray(b'1') * (8 << 20)\nwhile True: time.sleep(1)"


def rank(number, word_file, log_file):
    os.sched_setaffinity(0, {number})
    word = mmap.mmap(os.open(word_file, os.O_RDWR), mmap.PAGESIZE)
    steps = (ctypes.c_uint64 * 2).from_buffer(word)
    with open(log_file, "w", buffering=1) as log:
        while True:
            began = time.monotonic_ns()
            taken = bytearray(b"1") * TAKEN
            for _ in range(LOOPS):
                pass
            del taken
            steps[number] += 1
            while steps[1 - number] < steps[number]:
                pass
            log.write(f"{began} {time.monotonic_ns()}\n")


def turns(recorder, pairs):
    """Returns the turns, without and with the recorder in turn, and the share of a core in the latter."""
    spans, used = [], 0

    def turn():
        began = time.monotonic_ns()
        time.sleep(TURN)
        spans.append((began, time.monotonic_ns()))

    for _ in range(pairs):
        recorder.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        turn()
        recorder.send_signal(signal.SIGCONT)
        time.sleep(SETTLES)
        before = cpu_seconds(recorder.pid)
        turn()
        used += cpu_seconds(recorder.pid) - before
    recorder.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    turn()
    recorder.send_signal(signal.SIGCONT)
    return spans, used / (pairs * TURN)


def described(ratios):
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return f"{statistics.median(ratios):.4f} (95 % from {medians[250]:.4f} to {medians[9749]:.4f})"


def main():
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else PAIRS
    folder = tempfile.mkdtemp(prefix="raytrace-steps-")
    session = f"{folder}/session_2026-11-21_00-00-00_000000_1"
    os.makedirs(f"{session}/logs")
    os.makedirs(f"{session}/sockets")
    os.symlink("/bin/sh", f"{folder}/raylet")
    word, log = f"{folder}/word", f"{folder}/log"
    with open(word, "wb") as file:
        file.truncate(mmap.PAGESIZE)
    ranks = [f"{sys.executable} {os.path.abspath(__file__)} rank {number} {word} {log}{number} &" for number in range(2)]
    inside = f'for i in $(seq {OTHERS}); do {sys.executable} -c "$OTHER" & done; {" ".join(ranks)} wait'
    raylet = subprocess.Popen(
        [f"{folder}/raylet", "-c", inside, f"--raylet_socket_name={session}/sockets/raylet", f"--session-dir={session}"],
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "OTHER": OTHER},
        process_group=0,
    )
    try:
        time.sleep(3)
        recorder = start(sys.argv[1], folder, f"{folder}/x.raytrace")
        time.sleep(WARM)
        spans, share = turns(recorder, pairs)
        recorder.send_signal(signal.SIGINT)
        recorder.wait()
    finally:
        os.killpg(raylet.pid, signal.SIGKILL)
        raylet.wait()
    with open(f"{log}0") as file:
        # The last line may be cut.
        steps = [tuple(map(int, line.split())) for line in file.readlines()[:-1]]
    shutil.rmtree(folder)
    means = [statistics.mean(to - since for since, to in steps if began <= since and to <= ended) for began, ended in spans]
    without, beside = means[::2], means[1::2]

    def compared(turns, around):
        return described([turn / statistics.mean(two) for turn, two in zip(turns, around)])

    print(
        f"a step of {statistics.median(without) / 1e6:.1f} ms, {pairs} pairs: {compared(beside, zip(without, without[1:]))}; "
        f"control {compared(without[1:], zip(without, without[2:]))}; the recorder used {share * 100:.2f} % of a core"
    )


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank(int(sys.argv[2]), *sys.argv[3:])
    else:
        main()
