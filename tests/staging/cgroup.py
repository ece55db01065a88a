"""Makes and removes the memory cgroups of the tests, version 1 or 2.

Kills inside them never affect the rest of the machine.
"""

import os
import signal
import time

ROOT = "/sys/fs/cgroup"
V1 = os.path.isdir(f"{ROOT}/memory")
MEMORY = f"{ROOT}/memory" if V1 else ROOT
LIMIT = "memory.limit_in_bytes" if V1 else "memory.max"
EVENTS = "memory.oom_control" if V1 else "memory.events"


class Cgroup:
    def __init__(self, path, limit=None):
        self.path = path
        os.makedirs(path, exist_ok=True)
        if limit:
            self.limit(limit)

    @classmethod
    def top(cls, name, limit=None):
        """Makes a cgroup directly below the root of the hierarchy."""
        made = cls(os.path.join(MEMORY, name), limit)
        made.pass_down()
        return made

    def pass_down(self):
        if not V1:
            self._write("cgroup.subtree_control", "+memory")

    def child(self, name, limit=None):
        return Cgroup(os.path.join(self.path, name), limit)

    def limit(self, limit):
        self._write(LIMIT, str(limit))

    def add(self, pid):
        self._write("cgroup.procs", str(pid))

    def give_to(self, uid):
        """Lets an unprivileged user move its own processes here."""
        os.chown(self.path, uid, uid)
        for name in ("cgroup.procs", "tasks"):
            path = os.path.join(self.path, name)
            if os.path.exists(path):
                os.chown(path, uid, uid)

    def oom_kills(self):
        """Returns how many processes the kernel killed at this limit, as the kernel counts them."""
        with open(os.path.join(self.path, EVENTS)) as file:
            counts = dict(line.split() for line in file)
        return int(counts.get("oom_kill", 0))

    def pids(self):
        found = set()
        for folder, _, files in os.walk(self.path):
            if "cgroup.procs" in files:
                try:
                    with open(os.path.join(folder, "cgroup.procs")) as file:
                        found.update(int(line) for line in file)
                except OSError:
                    continue
        return found

    def destroy(self):
        """Kills the remaining processes of the cgroup, by pid, and removes the cgroup."""
        for _ in range(200):
            left = self.pids()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                break
            time.sleep(0.05)
        for folder, _, _ in os.walk(self.path, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass

    def _write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(value)
