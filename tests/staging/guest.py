"""Functions for the init process of a virtual machine with Ray.

They set up file systems, the network, the recorder and two serial ports. Scripts that run as such
an init use this module.
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

from truth import PATIENCE, command_line, comm, wait_for

LIBC = ctypes.CDLL(None, use_errno=True)
MOUNTS = [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/dev/shm"), ("tmpfs", "/tmp"), ("tmpfs", "/run")]
MOUNTS += [("cgroup2", "/sys/fs/cgroup"), ("tracefs", "/sys/kernel/tracing")]
SIOCADDRT, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x890B, 0x8914, 0x8916, 0x891C
IFF_UP, RTF_UP = 1, 1
SYS_FINIT_MODULE, MODULE_INIT_COMPRESSED_FILE = 313, 4
# Drivers that are modules of Debian's kernel, in the order in which they depend on one another.
MODULES = ["failover", "net_failover", "virtio_net"]
POWER_OFF = 0x4321FEDC
FILE, TRUTH, LOG = "/run/a.raytrace", "/run/truth.jsonl", "/run/log"
# On an emulated CPU, the raylet would not wait long enough for its agents. `tell_ports` therefore
# writes their ports beforehand (`session/NAME_NODE`), and SETTINGS has long timeouts.
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


def boot(name):
    """Mounts file systems, and makes the second serial port the output.

    Also starts the loopback interface and the cgroup controllers.
    """
    for kind, at in MOUNTS:
        os.makedirs(at, exist_ok=True)
        if LIBC.mount(kind.encode(), at.encode(), kind.encode(), 0, None) != 0:
            raise OSError(ctypes.get_errno(), f"mount {at}")
    line = os.open("/dev/ttyS1", os.O_WRONLY)
    os.dup2(line, 1)
    os.dup2(line, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.makedirs("/etc", exist_ok=True)
    write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    write("/etc/hosts", "127.0.0.1 localhost\n")
    socket.sethostname(name)
    up("lo")
    os.makedirs("/root", exist_ok=True)
    os.environ.update(SETTINGS)
    os.chdir("/tmp")
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory +cpu")


def up(interface, address=None):
    """Starts a network interface. With an address, it gets a /24 network and the default route."""
    name = interface.encode()

    def internet(text):
        return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        if address:
            fcntl.ioctl(one, SIOCSIFADDR, struct.pack("16s16s8x", name, internet(address)))
            fcntl.ioctl(one, SIOCSIFNETMASK, struct.pack("16s16s8x", name, internet("255.255.255.0")))
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sH22x", name, IFF_UP))
        if address:
            device = ctypes.create_string_buffer(name)
            everything = internet("0.0.0.0")
            # struct rtentry: destination, gateway, mask, flags, and the device after the metric.
            route = struct.pack("L16s16s16sH6xLPh6xPLLH6x", 0, everything, everything, everything, RTF_UP, 0, 0, 0, ctypes.addressof(device), 0, 0, 0)
            fcntl.ioctl(one, SIOCADDRT, route)


def join_network(address):
    for name in MODULES:
        [path] = glob.glob(f"/modules/{name}.ko*")
        with open(path, "rb") as file:
            compressed = 0 if path.endswith(".ko") else MODULE_INIT_COMPRESSED_FILE
            if LIBC.syscall(SYS_FINIT_MODULE, file.fileno(), b"", compressed) != 0:
                raise OSError(ctypes.get_errno(), f"load {path}")
    if not wait_for(lambda: os.path.exists("/sys/class/net/eth0"), PATIENCE):
        raise TimeoutError("there is no eth0")
    up("eth0", address)


def raylet_pid():
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return next((pid for pid in pids if comm(pid) == "raylet"), None)


def tell_ports():
    """Waits until the raylet runs, then writes the agents' ports where the raylet looks for them.

    The file names contain the node ID, which is in the raylet's command line.
    """

    def node():
        pid = raylet_pid()
        flags = command_line(pid).split() if pid else []
        return next((flag.partition("=")[2] for flag in flags if flag.startswith("--node_id=")), None)

    node = wait_for(node, 600, interval=0.2)
    for name, port in PORTS.items():
        write(f"/tmp/ray/session_latest/{name}_{node}", str(port))


def start_ray(*arguments, cgroup="/sys/fs/cgroup"):
    """Runs `ray start` with these arguments, in this cgroup."""
    threading.Thread(target=tell_ports, daemon=True).start()
    ray = os.path.join(os.path.dirname(sys.executable), "ray")

    def enter():
        write(f"{cgroup}/cgroup.procs", "0")

    command = [sys.executable, ray, "start", *arguments, "--object-store-memory=100000000", *FLAGS]
    subprocess.run(command, check=True, preexec_fn=enter, stdout=sys.stderr)


class Recorder:
    """Runs `raytrace record` during a `with` block."""

    def __enter__(self):
        with open(LOG, "w") as log:
            self.process = subprocess.Popen(["/raytrace", "record", "-o", FILE], stderr=log)
        if not wait_for(lambda: "Recording to" in read(LOG), PATIENCE):
            raise TimeoutError("the recorder does not begin")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)


def section(name, text):
    print(f"=== {name}\n{text}", flush=True)


def end():
    """Writes the last section and powers the machine off."""
    section("end", "")
    time.sleep(1)
    LIBC.reboot(POWER_OFF)
