"""Stages deaths under Ray's resource isolation, which needs cgroup v2.

This script is the init of a virtual machine, and with `driver` the job inside. Three workers die in
the cgroup that Ray made for them. The driver kills the first one, Ray's own monitor of that cgroup
the second one, and the kernel the third one at a limit of the cgroup. The machine's second serial
port gets the results.
"""

import os
import signal
import subprocess
import sys
import time

from guest import FILE, LOG, TRUTH, Recorder, boot, end, raylet_pid, read, section, start_ray, write
from truth import Truth, process, wait_gone

MIB = 1 << 20
# Ray cannot use the root cgroup itself, because kernel threads cannot be moved out of it.
BASE = "/sys/fs/cgroup/pod"
RAY = ["--head", "--num-cpus=2", "--node-ip-address=127.0.0.1", "--include-dashboard=false", "--enable-resource-isolation", f"--cgroup-path={BASE}"]
RAY += ["--system-reserved-cpu=1", "--system-reserved-memory=6000000000"]


def driver():
    import ray

    truth = Truth(TRUTH)
    ray.init(address="127.0.0.1:6379")
    raylet = process(raylet_pid())
    truth.write(kind="boot", seconds=time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
    truth.write(kind="cluster", session=os.path.basename(os.path.realpath("/tmp/ray/session_latest")), raylet=raylet)

    @ray.remote(num_cpus=1, max_restarts=0)
    class Hog:
        def who(self):
            return process(os.getpid())

        def grow(self, mib, pause):
            kept = []
            for _ in range(mib // 16):
                kept.append(b"x" * (16 * MIB))
                time.sleep(pause)

    def hog():
        made = Hog.remote()
        return made, ray.get(made.who.remote(), timeout=600)

    def ended(label, victim, reference):
        try:
            ray.get(reference, timeout=600)
            truth.failed(label, "it did not die")
        except ray.exceptions.RayError as error:
            print(f"{label}: {type(error).__name__} {error}", flush=True)
        if not wait_gone(victim):
            truth.failed(label, "it is still there")

    proven = {"certainty": "proven", "signal": 9}
    made, victim = hog()
    truth.death("killed", victim, "signal", sender={"pid": os.getpid(), "mechanism": "kill"}, **proven)
    os.kill(victim["pid"], signal.SIGKILL)
    ended("killed", victim, made.who.remote())

    made, victim = hog()
    truth.death("monitor", victim, "ray-memory-monitor", sender={"pid": raylet["pid"], "comm": "raylet", "mechanism": "kill"}, **proven)
    ended("monitor", victim, made.grow.remote(4000, 0.05))

    made, victim = hog()
    user = "/sys/fs/cgroup" + os.path.dirname(read(f"/proc/{victim['pid']}/cgroup").strip().rpartition("::")[2])
    # Round down to whole pages.
    limit = (int(read(f"{user}/memory.current")) + 300 * MIB) >> 12 << 12
    write(f"{user}/memory.high", "max")
    write(f"{user}/memory.max", str(limit))
    truth.death("kernel", victim, "kernel-oom-memcg", sender=None, limit_bytes=limit, **proven)
    ended("kernel", victim, made.grow.remote(2000, 0))
    kills = dict(line.split() for line in read(f"{user}/memory.events").splitlines())["oom_kill"]
    if kills != "1":
        truth.failed("kernel", f"the kernel counts {kills} kills in {user}")
    write(f"{user}/memory.max", "max")
    # Leave time for Ray's log lines about it.
    time.sleep(10)


def stage():
    os.mkdir(BASE)
    with Recorder():
        start_ray(*RAY, cgroup=BASE)
        subprocess.run([sys.executable, os.path.abspath(__file__), "driver"], check=True, timeout=1200)


def main():
    if "driver" in sys.argv:
        return driver()
    boot("ray")
    try:
        stage()
    except BaseException as error:  # noqa: BLE001 - the machine reports what it has, and ends
        Truth(TRUTH).failed("machine", repr(error))
    done = subprocess.run(["/raytrace", "report", "--format", "json", FILE], stdout=subprocess.PIPE, text=True)
    for name, path in (("truth", TRUTH), ("log", LOG)):
        section(name, read(path))
    section("report", done.stdout)
    end()


if __name__ == "__main__":
    main()
