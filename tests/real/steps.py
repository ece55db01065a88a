"""Measures how much recording slows down the steps of a verl training.

It also measures the CPU time of the recorder and the growth of its file.

    sudo python steps.py --raytrace PROGRAM --models FOLDER --out FOLDER
        [--turns 9] [--steps 4] [--settle 1]

The job is the healthy one of `cases.py` with more steps. It is recorded from its start. Then the
recorder is detached and attached again in turns of several steps. A turn with the recorder is
compared with the mean of the turns before and after it.
"""

import argparse
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import threading
import time

from cases import RANK_PAIR, cases, verl
from real import Cluster, record, settings

# Warm-up steps. The first of them takes several times as long as the others.
WARM = 2
TIME = re.compile(r"step:(\d+) .*timing_s/step:([0-9.]+)")


def used(pid):
    """Returns the CPU time of all threads in nanoseconds."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


def recorded(path):
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    size = [file.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size")]
    return size[0] * size[1]


class Recorder:
    """A recorder that is attached to a cluster until `end`, which returns what it used."""

    def __init__(self, arguments, name, cluster):
        self.path = os.path.join(arguments.out, f"{name}.raytrace")
        self.process = record(os.path.abspath(arguments.raytrace), arguments.out, name, "--raylet-pid", str(cluster.raylet["pid"]))
        self.began, self.used, self.bytes = time.monotonic(), used(self.process.pid), recorded(self.path)

    def end(self):
        seconds = time.monotonic() - self.began
        share = (used(self.process.pid) - self.used) / 1e9 / seconds
        megabytes = (recorded(self.path) - self.bytes) / 1e6 / seconds * 60
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=120)
        return f"{share * 100:.2f} % of a core, {megabytes:.2f} MB a minute, over {seconds:.0f} s"


def follow(driver, steps, path):
    """Appends the time of each step to `steps`, as the driver prints it."""
    with open(path, "w") as log:
        for line in driver.stdout:
            log.write(line)
            if found := TIME.search(line):
                steps.append(float(found[2]))


def until(steps, count, driver):
    while len(steps) < count:
        if driver.poll() is not None:
            raise RuntimeError(f"the driver ended with {driver.returncode} after {len(steps)} steps")
        time.sleep(0.02)


def measure(arguments):
    # The job never finishes by itself. It is terminated after the last turn.
    job = verl(arguments.models, "small", 100_000, "trainer.total_epochs=10000")
    case = cases(arguments.models)["a"]
    turns, steps = [], []
    with Cluster("real-steps", settings=settings(case), limit=case.machine) as cluster:
        cluster.start(**{"cpus": 4, **RANK_PAIR})
        recorder = Recorder(arguments, "steps-start", cluster)
        environment = {**cluster.environment, "RAY_ADDRESS": cluster.address}
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        driver = cluster.popen(["python", *job], env=environment, **output)
        reader = threading.Thread(target=follow, args=(driver, steps, os.path.join(arguments.out, "steps.log")), daemon=True)
        reader.start()
        try:
            until(steps, WARM, driver)
        finally:
            print(f"from the start of the job to its step {WARM}: {recorder.end()}", flush=True)
        for turn in range(arguments.turns):
            recorder = Recorder(arguments, f"steps-{turn}", cluster) if turn % 2 else None
            # The step in which the recorder was attached or detached does not count.
            first = len(steps) + arguments.settle
            try:
                until(steps, first + arguments.steps, driver)
            finally:
                said = f"with: {recorder.end()}" if recorder else "without"
            turns.append(statistics.mean(steps[first : first + arguments.steps]))
            print(f"turn {turn}: {turns[-1]:.2f} s a step, {said}", flush=True)
        driver.terminate()
        driver.wait()
    around = [(turns[turn - 1] + turns[turn + 1]) / 2 for turn in range(1, len(turns) - 1)]
    ratios = [turn / mean for turn, mean in zip(turns[1:-1], around, strict=True)]
    with_it, control = ratios[::2], [1 / ratio for ratio in ratios[1::2]]
    print(f"a step with the recorder: {' '.join(f'{ratio:.3f}' for ratio in with_it)}, median {statistics.median(with_it):.3f}")
    print(f"a turn without it and the turns with it around: {' '.join(f'{ratio:.3f}' for ratio in control)}, median {statistics.median(control):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--raytrace", required=True, help="the program")
    parser.add_argument("--models", required=True, help="what make_model.py made")
    parser.add_argument("--out", required=True, help="where files go")
    parser.add_argument("--turns", type=int, default=9, help="turns, the first without the recorder")
    parser.add_argument("--steps", type=int, default=4, help="steps of a turn")
    parser.add_argument("--settle", type=int, default=1, help="steps at the beginning of a turn that do not count")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    arguments.out, arguments.models = os.path.abspath(arguments.out), os.path.abspath(arguments.models)
    measure(arguments)


if __name__ == "__main__":
    main()
