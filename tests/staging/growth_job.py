"""The driver of growth.py, with each kind of memory.

These are an actor that leaks with each call, tasks of one size, puts, a subprocess of a worker, an
array of the driver, a memfd that no process maps, and a file in /dev/shm that no process has open.
"""

import json
import os
import subprocess
import sys
import time

import numpy
import ray

MIB = 1 << 20


CHILD = """
import time
before = next(line for line in open("/proc/self/status") if line.startswith("RssAnon:"))
kept = b"x" * ({megabytes} << 20)
print(int(before.split()[1]) * 1024, flush=True)
time.sleep(600)
"""


def private():
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def array(megabytes):
    return numpy.ones(megabytes * MIB, dtype=numpy.uint8)


def told(label, who, bytes_of_it):
    print(json.dumps({"label": label, "pid": who, "bytes": bytes_of_it}), flush=True)


@ray.remote(num_cpus=0)
class Leaky:
    def __init__(self):
        self.kept = []

    def call(self, megabytes):
        self.kept.append(array(megabytes))
        # Report the process's own figure, because Ray's part of a worker grows in the first calls.
        return os.getpid(), private()


@ray.remote(num_cpus=0)
class Launcher:
    def launch(self, megabytes):
        script = CHILD.format(megabytes=megabytes)
        self.child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        return self.child.pid, int(self.child.stdout.readline())

    def end(self):
        self.child.kill()
        self.child.wait()


@ray.remote(num_cpus=0)
class Keeper:
    """Holds shared memory that no counter of a process shows, because it is not mapped."""

    def write(self, megabytes):
        self.file = os.memfd_create("growth-weights")
        for _ in range(megabytes):
            os.write(self.file, b"x" * MIB)
        return os.getpid(), os.fstat(self.file).st_blocks * 512


@ray.remote(num_cpus=0)
class Mapper:
    """Maps a file in /dev/shm and closes its descriptor."""

    def map(self, megabytes):
        self.path = f"/dev/shm/growth-{os.getpid()}"
        self.kept = numpy.memmap(self.path, numpy.uint8, "w+", shape=megabytes * MIB)
        self.kept[:] = 1
        return os.getpid(), os.stat(self.path).st_blocks * 512

    def end(self):
        os.unlink(self.path)


@ray.remote(num_cpus=1)
def of_one_size(megabytes, seconds):
    kept = array(megabytes)
    time.sleep(seconds)
    return os.getpid(), private(), len(kept)


def main():
    ray.init()
    leaky, launcher = Leaky.remote(), Launcher.remote()
    tasks = [of_one_size.remote(64, 6) for _ in range(3)]
    for _ in range(8):
        pid, held = ray.get(leaky.call.remote(20))
        time.sleep(0.1)
    told("leaky", pid, held)
    child, before = ray.get(launcher.launch.remote(96))
    told("subprocess", child, before + 96 * MIB)
    keeper, mapper = Keeper.remote(), Mapper.remote()
    told("memfd", *ray.get(keeper.write.remote(150)))
    told("file", *ray.get(mapper.map.remote(120)))
    kept = array(128)
    told("driver", os.getpid(), private())
    puts = [ray.put(array(6)) for _ in range(10)]
    told("puts", os.getpid(), len(puts) * 6 * MIB)
    for pid, held, size in ray.get(tasks):
        assert size == 64 * MIB <= held
        told("task", pid, held)
    time.sleep(3)
    assert len(kept) == 128 * MIB
    ray.get([launcher.end.remote(), mapper.end.remote()])
    # On a busy machine, Ray's threads sometimes crash while Python exits.
    os._exit(0)


if __name__ == "__main__":
    main()
