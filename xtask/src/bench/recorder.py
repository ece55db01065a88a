"""The recorder as a process that a benchmark starts and measures."""

import os
import subprocess
import sys
import time


def start(raytrace, folder, recording, *options):
    """Returns a recorder that has said that it records."""
    said = f"{folder}/said"
    recorder = subprocess.Popen(
        [raytrace, "record", "--require-ebpf", *options, "-o", recording],
        stdin=subprocess.DEVNULL,
        stderr=open(said, "w"),
    )
    while "Recording" not in open(said).read():
        if recorder.poll() is not None:
            sys.exit(open(said).read())
        time.sleep(0.01)
    return recorder


def cpu_seconds(pid):
    """Returns the processor time of all threads."""
    tasks = os.listdir(f"/proc/{pid}/task")
    times = [open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0] for task in tasks]
    return sum(map(int, times)) / 1e9
