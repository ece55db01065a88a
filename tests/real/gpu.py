"""Stages the cases that need a GPU, and prints what really happened as JSON lines.

    python gpu.py check | nvml | oom | offload | pinned | leftover

GPU memory is allocated through the driver's own library, so torch is not needed. `oom`, `offload`
and `pinned` need Ray and root. A recorder runs at the same time.
"""

import ctypes
import json
import mmap
import os
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
MIB, GIB = 1 << 20, 1 << 30
# The exit code of `check` if nothing can be staged.
NO_GPU = 3
# The most GPU memory that a case allocates, including contexts.
NEEDED = 6 * GIB
# Seconds to wait for the recorder, which samples GPUs once a second.
SETTLE = 3
# Seconds for which a leftover process holds the GPU.
LEFT = 40
# The memory of the machine as Ray sees it, and the share of it above which its monitor kills.
MACHINE, THRESHOLD = 8 * GIB, 0.9
PATIENCE = 300


def in_use():
    """Returns the bytes in use on all GPUs, as counted by NVML."""
    library = ctypes.CDLL("libnvidia-ml.so.1")

    def call(name, *arguments):
        if code := getattr(library, name)(*arguments):
            raise RuntimeError(f"{name} returned {code}")

    count, used = ctypes.c_uint(), 0
    call("nvmlInit_v2")
    call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    for index in range(count.value):
        # nvmlMemory_v2_t: version, total, reserved, free, used.
        device, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 5)(40 | 2 << 24)
        call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
        call("nvmlDeviceGetMemoryInfo_v2", device, memory)
        used += memory[4]
    return used


class Gpu:
    """Accesses the first GPU through libcuda, in the primary context, which torch uses too.

    `held` is how much of its memory this process holds.
    """

    def __init__(self):
        before = in_use()
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        # The context's own memory. The figure is right only if no other process allocates
        # meanwhile.
        self.held = in_use() - before

    def call(self, name, *arguments):
        if code := getattr(self.cuda, name)(*arguments):
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(code, ctypes.byref(text))
            # torch uses the same words for a driver error.
            raise RuntimeError(f"CUDA error: {(text.value or b'unknown').decode()} ({name} returned {code})")

    def sizes(self):
        """Returns the free and the total GPU memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.held += size
        return address

    def free(self, address, size):
        self.call("cuMemFree_v2", address)
        self.held -= size

    def copied(self, address, size):
        """Returns a copy in private memory of the host."""
        host = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.call("cuMemcpyDtoH_v2", ctypes.byref(ctypes.c_char.from_buffer(host)), address, ctypes.c_size_t(size))
        return host

    def pin(self, size):
        """Allocates pinned host memory and touches it."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        ctypes.memset(address, 1, size)


def truth(label, gpu):
    """Returns what this process holds, after the recorder has had time to sample it."""
    time.sleep(SETTLE)
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    kernel = {name: int(status[key].split()[0]) << 10 for name, key in (("anon", "RssAnon"), ("shmem", "RssShmem"))}
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return {"label": label, "pid": os.getpid(), "parent": os.getppid(), "time": now, "gpu": gpu.held, **kernel}


def say(row):
    print(json.dumps(row), flush=True)


def check():
    """Exits with NO_GPU and says what is missing, if there is no usable GPU."""
    try:
        free, _ = Gpu().sizes()
    except OSError as error:
        hint = "install NVIDIA's driver; in a container also give it the GPU (--gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        why = f"no NVIDIA driver: {error}; {hint}"
    except (RuntimeError, AttributeError) as error:
        why = f"the NVIDIA driver does not work: {error}; try: nvidia-smi"
    else:
        why = f"the first GPU has {free / GIB:.1f} GiB free, {NEEDED / GIB:.0f} are needed: end what runs there" if free < NEEDED else None
    if why:
        print(why, file=sys.stderr)
        sys.exit(NO_GPU)


def hold(*sizes):
    """Allocates this many MiB, one size for each line of standard input."""
    gpu = Gpu()
    for size in sizes:
        gpu.allocate(int(size) * MIB)
        say(truth(f"{size} MiB more", gpu))
        sys.stdin.readline()


def nvml():
    """Starts two processes that hold GPU memory. Then the first one allocates more."""

    def start(*sizes):
        return subprocess.Popen([sys.executable, __file__, "hold", *sizes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pass_on(process):
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a process could not hold GPU memory")
        print(line, end="", flush=True)

    first = start("256", "768")
    pass_on(first)
    second = start("1024")
    pass_on(second)
    print(file=first.stdin, flush=True)
    pass_on(first)
    for process in (first, second):
        process.communicate()


class Trainer:
    """An actor with a GPU. Its methods are the steps of `oom`, `offload` and `pinned`."""

    def __init__(self):
        self.gpu = Gpu()
        self.kept = []

    def exhaust(self):
        """Requests more memory than the GPU has, which does not affect other processes.

        It uses torch if that is installed.
        """
        _, total = self.gpu.sizes()
        try:
            import torch

            with_torch = torch.cuda.is_available()
        except (ImportError, OSError):
            with_torch = False
        try:
            if with_torch:
                torch.empty(total + GIB, dtype=torch.uint8, device="cuda")
            self.gpu.allocate(total + GIB)
        except Exception:
            # Trainers do this, because Ray itself gives an exception to the caller only.
            traceback.print_exc()
            raise

    def load(self):
        self.gpu.allocate(512 * MIB)
        self.model = self.gpu.allocate(3 * GIB)
        return truth("model on the GPU", self.gpu)

    def offload(self):
        self.kept.append(self.gpu.copied(self.model, 3 * GIB))
        self.gpu.free(self.model, 3 * GIB)
        return truth("model on the host", self.gpu)

    def start(self):
        return truth("nothing pinned", self.gpu)

    def pin(self):
        self.gpu.pin(2 * GIB)
        return truth("2 GiB pinned", self.gpu)

    def fill(self):
        """Allocates private memory until it is killed, slowly enough for Ray's monitor to act."""
        while True:
            self.kept.append(b"x" * (32 * MIB))
            time.sleep(0.05)


STEPS = {"oom": ["exhaust"], "offload": ["load", "offload", "fill"], "pinned": ["start", "pin", "fill"]}


def drive(name):
    """Runs the job of a case: calls each step in turn, and prints its result or error."""
    # Workers import this module too.
    import gpu
    import ray

    ray.init(log_to_driver=False, logging_level="ERROR")
    actor = ray.remote(num_gpus=1)(gpu.Trainer).remote()
    for step in STEPS[name]:
        try:
            say(ray.get(getattr(actor, step).remote()))
        except ray.exceptions.RayError as error:
            say({"label": step, "error": str(error).splitlines()[-1]})
            return


def on_a_cluster(name):
    """Runs `drive` on a cluster in a memory cgroup of its own."""
    sys.path.insert(0, os.path.join(HERE, "..", "staging"))
    from cluster import BIN, Cluster

    settings = {
        "RAY_memory_usage_threshold": str(THRESHOLD),
        "PYTHONPATH": HERE,
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    with Cluster(f"gpu-{name}", settings=settings, limit=MACHINE) as cluster:
        cluster.start(cpus=2, num_gpus=1)
        driver = cluster.python(os.path.abspath(__file__), "drive", name)
        if code := driver.wait(timeout=PATIENCE):
            sys.exit(f"the driver ended with {code}")
        # Leave time for the consequences of its end.
        time.sleep(SETTLE)


def leftover():
    """Leaves an orphan that holds 1 GiB for a while, like an engine that outlives its job."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            gpu = Gpu()
            gpu.allocate(GIB)
            os.write(writer, json.dumps(truth("left over", gpu)).encode())
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2, writer):
                os.dup2(nowhere, descriptor)
            time.sleep(LEFT)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    if not text:
        sys.exit("no process could be left on the GPU")
    print(text)


if __name__ == "__main__":
    # Number the GPUs as NVML does.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    what, *arguments = sys.argv[1:]
    if what in STEPS:
        on_a_cluster(what)
    else:
        {"check": check, "nvml": nvml, "hold": hold, "drive": drive, "leftover": leftover}[what](*arguments)
