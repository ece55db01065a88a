"""Runs a job like those of trainers, and prints its CPU and wall-clock seconds as JSON.

Each step allocates memory in several lines, computes, and frees most of the memory.
"""

import ctypes
import json
import resource
import time

import numpy

STEPS = 10
MIB = 1 << 20

LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p


def batch():
    return bytearray(b"\1") * (96 * MIB)


def weights():
    return numpy.full(128 * MIB // 8, 1.0)


def native():
    address = ctypes.c_void_p(LIBC.malloc(ctypes.c_size_t(64 * MIB)))
    LIBC.memset(address, 1, ctypes.c_size_t(64 * MIB))
    LIBC.free(address)


def rows():
    return [bytes(1000) for _ in range(40_000)]


def compute(matrix):
    return sum(float((matrix @ matrix)[0, 0]) for _ in range(8))


def step(kept, matrix):
    held = [batch(), weights(), rows()]
    native()
    compute(matrix)
    kept.append(held[0][: 8 * MIB])


def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, time.perf_counter()


def main():
    kept, matrix = [], numpy.ones((400, 400))
    step(kept, matrix)
    before = seconds()
    for _ in range(STEPS):
        step(kept, matrix)
    cpu, wall = (after - earlier for after, earlier in zip(seconds(), before))
    print(json.dumps({"cpu": cpu, "wall": wall}))


if __name__ == "__main__":
    main()
