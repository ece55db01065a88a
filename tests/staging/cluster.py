"""Runs a private Ray cluster in its own memory cgroup, which Ray takes for the machine.

Ray's memory monitor reads the cgroup that is mounted at /sys/fs/cgroup in its mount namespace. The
cluster gets a mount namespace in which the test's cgroup is mounted there. The monitor then acts at
half of 6 GiB, and the rest of the machine is not affected.
"""

import functools
import glob
import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

from cgroup import MEMORY, Cgroup
from truth import PATIENCE, command_line, comm, process, wait_for

LIMIT = 6 << 30
THRESHOLD = 0.5
HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.dirname(sys.executable)

RAYLET = ("raylet/raylet",)
# Makes names unique, because clusters of one name may exist at the same time.
NUMBERS = itertools.count()
# Ports for servers. They are above Ray's defaults, and below the ports that Linux assigns itself.
PORTS = range(20000, 32768)
# The sockets that reserve this process's ports.
RESERVED = []

# A shell starts background processes with SIGINT ignored, and all staged processes would inherit
# that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# On SIGTERM, exit through `with` blocks, which end the cluster.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

# Joins the cgroup $1, mounts $2 at $3, runs the shell code $4, and executes the other arguments.
ENTER = 'echo $$ > "$1/cgroup.procs" && mount --bind "$2" "$3" && eval "$4" && shift 4 && exec "$@"'


@functools.cache
def hold_programs_outside():
    """Reads Ray's programs and libraries into the page cache, outside of the staged cgroups.

    Otherwise a staged cgroup is charged for these pages. At its limit it evicts them and reads them
    again, for minutes, and the kernel kills nothing.
    """
    packages = os.path.dirname(os.path.dirname(importlib.util.find_spec("ray").origin))
    programs = glob.glob(f"{packages}/ray/core/src/ray/*/*")
    for path in [*programs, *glob.glob(f"{packages}/**/*.so*", recursive=True)]:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                while file.read(4 << 20):
                    pass


def reserve(port):
    """Reserves `port` against other tests that run at the same time. Returns whether that worked.

    The reservation is a Unix socket with an abstract name, which ends with this process.
    `tests/src/ports.rs` uses the same names.
    """
    held = socket.socket(socket.AF_UNIX)
    with socket.socket() as probe:
        try:
            held.bind(f"\0raytrace-test-port-{port}")
            probe.bind(("", port))
        except OSError:
            held.close()
            return False
    RESERVED.append(held)
    return True


def free_ports(count):
    """Returns free ports that are assigned to no other process.

    Linux assigns ports from 32768 on to any socket that requests no specific one. Ray may request
    such a port and open it later. By then, a worker of another cluster may have it.
    """
    chosen = list(itertools.islice(filter(reserve, random.sample(PORTS, len(PORTS))), count))
    if len(chosen) < count:
        raise RuntimeError(f"{len(chosen)} of {count} ports are free from {PORTS.start} on")
    return chosen


class Cluster:
    """A cluster that starts with `start` and ends with `stop`, or at the end of a `with` block."""

    def __init__(self, name, user=None, pid_namespace=False, settings=None, mounts="true", limit=LIMIT, init=("sleep", "infinity"), network=None, rights=None):
        self.user = user
        # A capability that the user keeps.
        self.rights = rights
        # Shell code that changes the cluster's mount namespace.
        self.mounts = mounts
        self.cgroup = Cgroup.top(f"raytrace-{name}-{os.getpid()}-{next(NUMBERS)}", limit)
        self.leaf = self.cgroup.child("cluster")
        # Processes of the cluster are moved here to get their own limit.
        self.small = self.cgroup.child("small")
        self.small.pass_down()
        # Ray creates sockets in it. The path of a socket has at most 107 bytes.
        self.folder = tempfile.mkdtemp(prefix="rt-", dir="/tmp")
        self.environment = {
            **os.environ,
            "PYTHONPATH": HERE,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_memory_usage_threshold": str(THRESHOLD),
            "RAY_memory_monitor_refresh_ms": "100",
            "RAYTRACE_STAGE": self.folder,
            "HOME": self.folder,
            **(settings or {}),
        }
        if user is not None:
            os.chown(self.folder, user, user)
            self.leaf.give_to(user)
            self.small.give_to(user)
        # The name of a network namespace (ip netns). It needs a pid namespace.
        self.network = network
        self.init_program = list(init)
        self.keeper = self.init = self.address = self.raylet = None
        if pid_namespace:
            try:
                self.init = self._keep_pid_namespace()
            except BaseException:
                self.stop()
                raise

    def _keep_pid_namespace(self):
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if self.network:
            # Not `ip netns exec`, which would mount another /sys, without cgroups.
            command = ["nsenter", f"--net=/run/netns/{self.network}", *command]
        keeper = subprocess.Popen([*command, *self._shell(self.init_program)])
        children = f"/proc/{keeper.pid}/task/{keeper.pid}/children"
        self.keeper = keeper
        inside = wait_for(lambda: open(children).read().split(), PATIENCE)
        pid = int(inside[0])
        if not wait_for(lambda: comm(pid) == os.path.basename(self.init_program[0]), PATIENCE):
            raise TimeoutError(f"pid {pid} did not become {self.init_program[0]}")
        return process(pid)

    def _shell(self, command):
        return ["sh", "-c", ENTER, "sh", self.leaf.path, self.cgroup.path, MEMORY, self.mounts, *command]

    def _inside(self, command):
        """Returns what runs `command` in the cluster's namespaces and cgroup, as its user."""
        if self.user is not None:
            drop = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
            none = ["--bounding-set=-all", "--inh-caps=-all"]
            some = [f"--inh-caps=+{self.rights}", f"--ambient-caps=+{self.rights}"]
            command = ["setpriv", *drop, *(some if self.rights else none), *command]
        if self.init:
            join = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'
            enter = ["nsenter", "--target", str(self.init["pid"]), "--mount", "--pid", "--net"]
            return ["sh", "-c", join, "sh", self.leaf.path, *enter, *command]
        return ["unshare", "--mount", "--propagation", "private", *self._shell(command)]

    def popen(self, command, **options):
        options.setdefault("cwd", self.folder)
        options.setdefault("env", self.environment)
        return subprocess.Popen(self._inside(command), **options)

    def run(self, command, seconds=120, check=True, **options):
        """Runs `command` inside to its end. Returns its output, or raises an error with it."""
        done = self.popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        try:
            output, _ = done.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            done.kill()
            output, _ = done.communicate()
            check = True
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{output[-4000:]}")
        return output

    def python(self, script, *arguments, **options):
        """Starts a driver from this folder. RAY_ADDRESS connects it to this cluster."""
        command = [sys.executable, os.path.join(HERE, script), *arguments]
        environment = {**self.environment, "RAY_ADDRESS": self.address or ""}
        return self.popen(command, env=environment, **options)

    def start(self, dashboard=False, cpus=4, block=False, port=None, **more):
        """Starts Ray. Its GCS listens at `port`, or at any free one.

        `block` starts it with `ray start --block`, as KubeRay does. `more` are other flags of
        `ray start`, with underscores.
        """
        hold_programs_outside()
        free, dashboard_port, listen, client, agent, runtime, metrics = free_ports(7)
        port = port or free
        self.address = f"127.0.0.1:{port}"
        self.dashboard = f"http://127.0.0.1:{dashboard_port}"
        self.agent_port = listen
        flags = {
            "node-ip-address": "127.0.0.1",
            "port": port,
            "dashboard-port": dashboard_port,
            "dashboard-agent-listen-port": listen,
            "ray-client-server-port": client,
            "dashboard-agent-grpc-port": agent,
            "runtime-env-agent-port": runtime,
            "metrics-export-port": metrics,
            # 0 means any free port, which avoids collisions between clusters.
            "min-worker-port": 0,
            "max-worker-port": 0,
            "include-dashboard": str(dashboard).lower(),
            "object-store-memory": 100 << 20,
            "num-cpus": cpus,
            "temp-dir": self.folder,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        command = [f"{BIN}/ray", "start", "--head", "--disable-usage-stats", *arguments]
        if block:
            self.popen([*command, "--block"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.raylet = self.one(*RAYLET)
            # The node is complete once its agent runs.
            self.agent()
        else:
            self.run(command)
            self.raylet = self.one(*RAYLET)
        return self

    def members(self):
        """Returns all live processes of the cluster: {pid: (identity, comm)}."""
        found = {pid: (process(pid), comm(pid)) for pid in self.cgroup.pids()}
        return {pid: known for pid, known in found.items() if known[0]}

    def outside(self, inside):
        """Converts a process of the cluster's pid namespace to that of the machine."""
        if not self.init:
            return inside
        for pid in self.cgroup.pids():
            with open(f"/proc/{pid}/status") as file:
                pids = next(line for line in file if line.startswith("NSpid:")).split()
            if int(pids[-1]) == inside["pid"]:
                return process(pid)
        raise RuntimeError(f"no process has pid {inside['pid']} inside")

    def one(self, *names, seconds=PATIENCE):
        """Waits for the process with one of `names` in its command line or title. Returns it."""

        def look():
            for who, is_called in self.members().values():
                line = command_line(who["pid"])
                # The raylet's own command line contains those of its agents.
                if any(name in line for name in names) and (is_called == "raylet") == (names == RAYLET):
                    return who
            return None

        found = wait_for(look, seconds)
        if not found:
            raise RuntimeError(f"no process called {' or '.join(names)} in {self.cgroup.path}")
        return found

    def agent(self):
        """Returns the dashboard agent. Old and new versions of Ray name it differently."""
        return self.one("ray::DashboardAgent", "dashboard/agent.py")

    def ask_agent(self):
        """Sends a request to the agent, which must allocate memory to answer it."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.agent_port}/api/local_raylet_healthz", timeout=1).read()
        except OSError:
            pass

    def session(self):
        """Returns the name of the session, which is also the name of its folder."""
        return os.path.basename(os.path.realpath(f"{self.folder}/session_latest"))

    def stop(self):
        if self.keeper:
            self.keeper.send_signal(signal.SIGKILL)
            self.keeper.wait()
        self.cgroup.destroy()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
