"""The code of staged tasks and actors. It dies, or it starts subprocesses that die."""

import ctypes
import os
import signal
import subprocess
import sys
import time

import ray

import forge
from cgroup import Cgroup
from kill import child_program
from truth import Roll, process

MIB = 1 << 20


def grow(step, count, interval):
    kept = []
    for _ in range(count):
        kept.append(b"x" * (step * MIB))
        time.sleep(interval)
    return kept


def hog():
    """Allocates memory slowly, so Ray's monitor, which checks every 100 ms, always acts first."""
    kept = grow(32, 90, 0.03)
    time.sleep(60)
    return len(kept)


def eat(cgroup):
    """Allocates memory fast in a small cgroup, so the kernel acts first."""
    Cgroup(cgroup).add(os.getpid())
    kept = grow(8, 200, 0.0)
    return len(kept)


def fault():
    ctypes.string_at(0)


def kill_myself(number):
    os.kill(os.getpid(), number)
    time.sleep(30)


def raise_error():
    raise ValueError("a task's own error")


ACTS = {
    "hog": hog,
    "eat": eat,
    "fault": fault,
    "abort": os.abort,
    "os_exit": os._exit,
    "sys_exit": sys.exit,
    "kill_myself": kill_myself,
    "raise_error": raise_error,
    "sleep": time.sleep,
    "lie": forge.lie,
    "worker_id": lambda: ray.get_runtime_context().get_worker_id(),
}


@ray.remote(max_retries=0, num_cpus=0.1)
def task(folder, label, act, *arguments):
    Roll(folder).announce(label)
    # The staging code must read the pid before this process ends.
    time.sleep(0.3)
    ACTS[act](*arguments)
    return os.getpid()


@ray.remote(max_calls=1, num_cpus=0.1)
def once(folder, label):
    Roll(folder).announce(label)
    time.sleep(0.3)


@ray.remote(num_cpus=0.1)
class Actor:
    """An actor that runs acts on request."""

    def __init__(self, folder=None, label=None, act=None, *arguments):
        if act:
            Roll(folder).announce(label)
            ACTS[act](*arguments)

    def who(self):
        return process(os.getpid())

    def act(self, name, *arguments):
        return ACTS[name](*arguments)

    def announce_and(self, folder, label, name, *arguments):
        Roll(folder).announce(label)
        return ACTS[name](*arguments)

    def leave(self):
        ray.actor.exit_actor()

    def own_task(self, folder, label):
        """Starts a task that this actor owns."""
        self.kept = task.options(name="owned").remote(folder, label, "sleep", 600)

    def own_actor(self):
        self.actor = Actor.remote()
        return ray.get(self.actor.who.remote())


@ray.remote(num_cpus=0.1)
class Host:
    """An actor that survives its subprocesses."""

    def __init__(self, folder):
        self.folder = folder
        self.children = {}

    def who(self):
        return process(os.getpid())

    def start(self, kind, label):
        self.children[label] = child_program(kind, self.folder, label)
        return self.children[label].pid

    def start_namespace(self, label):
        """Starts a child that is the init of its own pid namespace."""
        command = ["unshare", "--pid", "--fork", "sh", "-c", "sleep 600 & sleep 600; true"]
        self.children[label] = subprocess.Popen(command)
        return self.children[label].pid

    def start_in(self, label, cgroup):
        """Starts a child in `cgroup`. It allocates memory after a call of `feed`."""
        child = child_program("eats", self.folder, label, stdin=subprocess.PIPE)
        Cgroup(cgroup).add(child.pid)
        self.children[label] = child
        return child.pid

    def feed(self, labels):
        for label in labels:
            self.children[label].stdin.write(b"\n")
            self.children[label].stdin.flush()

    def same_pid_twice(self, label):
        """Starts two children, one after the other, with the same pid.

        The first exits with 3. The second is later killed by SIGKILL. Returns None if another
        process got the pid each time.
        """
        first = subprocess.Popen(["sh", "-c", "sleep 0.3; exit 3"])
        identity = process(first.pid)
        first.wait()
        for _ in range(200):
            try:
                with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                    file.write(str(identity["pid"] - 1))
            except OSError:
                return None
            second = subprocess.Popen(["sleep", "600"])
            if second.pid == identity["pid"]:
                self.children[label] = second
                return identity, process(second.pid)
            second.kill()
            second.wait()
        return None

    def wait(self, label):
        return self.children[label].wait(timeout=120)

    def many(self, count):
        """Runs `count` short processes, one after the other."""
        for _ in range(count):
            subprocess.run(["true"], check=True)
        return count

    def start_sleepers(self, count):
        """Starts `count` long-lived processes."""
        sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
        self.sleepers = sleepers
        return [process(child.pid) for child in sleepers]

    def kill_sleepers(self):
        for child in self.sleepers:
            os.kill(child.pid, signal.SIGKILL)
        for child in self.sleepers:
            child.wait()
        return process(os.getpid())
