"""Ray with resource isolation, which needs cgroup v2: this is the init of a virtual machine, and with `driver` the job inside.

Three workers die in the cgroup that Ray made for them: killed by the driver, by Ray's own monitor of that cgroup, by the kernel at
a limit of it. The machine's second serial line gets what is compared.
"""

import ctypes
import fcntl
import glob
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from truth import PATIENCE, Truth, comm, process, wait_for, wait_gone

MIB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
MOUNTS = [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/dev/shm"), ("tmpfs", "/tmp"), ("tmpfs", "/run")]
MOUNTS += [("cgroup2", "/sys/fs/cgroup"), ("tracefs", "/sys/kernel/tracing")]
FILES = {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "hosts": "127.0.0.1 localhost\n"}
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
POWER_OFF = 0x4321FEDC
# The root itself is no base for Ray's cgroups: kernel threads cannot be moved out of it.
BASE = "/sys/fs/cgroup/pod"
FILE, TRUTH, LOG = "/run/a.raytrace", "/run/truth.jsonl", "/run/log"
# An emulated raylet would not wait for its agents: it is told their ports beforehand (`session/NAME_NODE`), and to be patient.
PORTS = {"metrics_agent_port": 52366, "metrics_export_port": 52368, "dashboard_agent_listen_port": 52365, "runtime_env_agent_port": 52367}
FLAGS = ["--dashboard-agent-grpc-port=52366", "--metrics-export-port=52368", "--dashboard-agent-listen-port=52365", "--runtime-env-agent-port=52367"]
SETTINGS = {
    "HOME": "/root", "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "USER": "root", "PATH": "/bin", "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "1200000", "RAY_worker_register_timeout_seconds": "1200", "RAY_raylet_start_wait_time_s": "600",
    "RAY_gcs_server_request_timeout_seconds": "600", "RAY_health_check_timeout_ms": "600000",
    "RAY_health_check_initial_delay_ms": "600000", "RAY_py_gcs_connect_timeout_s": "600",
}


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def boot():
    for kind, at in MOUNTS:
        os.makedirs(at, exist_ok=True)
        if LIBC.mount(kind.encode(), at.encode(), kind.encode(), 0, None) != 0:
            raise OSError(ctypes.get_errno(), f"mount {at}")
    line = os.open("/dev/ttyS1", os.O_WRONLY)
    os.dup2(line, 1)
    os.dup2(line, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.makedirs("/etc", exist_ok=True)
    for name, text in FILES.items():
        write(f"/etc/{name}", text)
    socket.sethostname("ray")
    with socket.socket() as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    os.makedirs("/root", exist_ok=True)
    os.environ.update(SETTINGS)
    os.chdir("/tmp")
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory +cpu")
    os.mkdir(BASE)


def tell_ports():
    """Writes the agents' ports where the raylet looks for them, once it has made its cgroup, which is called after the node."""
    node = wait_for(lambda: glob.glob(f"{BASE}/ray-node_*"), 600)[0].rpartition("_")[2]
    for name, port in PORTS.items():
        write(f"/tmp/ray/session_latest/{name}_{node}", str(port))


def start_ray():
    threading.Thread(target=tell_ports, daemon=True).start()
    ray = os.path.join(os.path.dirname(sys.executable), "ray")
    command = [ray, "start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=2", "--include-dashboard=false"]
    command += ["--object-store-memory=100000000", "--enable-resource-isolation", f"--cgroup-path={BASE}"]
    command += ["--system-reserved-cpu=1", "--system-reserved-memory=6000000000", *FLAGS]

    def enter():
        write(f"{BASE}/cgroup.procs", "0")

    subprocess.run([sys.executable, *command], check=True, preexec_fn=enter, stdout=sys.stderr)


def driver():
    import ray

    truth = Truth(TRUTH)
    ray.init(address="127.0.0.1:6379")
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    raylet = process(next(pid for pid in pids if comm(pid) == "raylet"))
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
    # Whole pages.
    limit = (int(read(f"{user}/memory.current")) + 300 * MIB) >> 12 << 12
    write(f"{user}/memory.high", "max")
    write(f"{user}/memory.max", str(limit))
    truth.death("kernel", victim, "kernel-oom-memcg", sender=None, limit_bytes=limit, **proven)
    ended("kernel", victim, made.grow.remote(2000, 0))
    kills = dict(line.split() for line in read(f"{user}/memory.events").splitlines())["oom_kill"]
    if kills != "1":
        truth.failed("kernel", f"the kernel counts {kills} kills in {user}")
    write(f"{user}/memory.max", "max")
    # What Ray's logs say of it.
    time.sleep(10)


def section(name, text):
    print(f"=== {name}\n{text}", flush=True)


def stage():
    with open(LOG, "w") as log:
        recorder = subprocess.Popen(["/raytrace", "record", "-o", FILE], stderr=log)
    if not wait_for(lambda: "Recording to" in read(LOG), PATIENCE):
        raise TimeoutError("the recorder does not begin")
    start_ray()
    subprocess.run([sys.executable, os.path.abspath(__file__), "driver"], check=True, timeout=1200)
    recorder.send_signal(signal.SIGINT)
    recorder.wait(PATIENCE)


def main():
    if "driver" in sys.argv:
        return driver()
    boot()
    try:
        stage()
    except BaseException as error:  # noqa: BLE001 - what is there is told, and the machine ends
        Truth(TRUTH).failed("machine", repr(error))
    done = subprocess.run(["/raytrace", "report", "--format", "json", FILE], stdout=subprocess.PIPE, text=True)
    for name, path in (("truth", TRUTH), ("log", LOG)):
        section(name, read(path))
    section("report", done.stdout)
    section("end", "")
    time.sleep(1)
    LIBC.reboot(POWER_OFF)


if __name__ == "__main__":
    main()
