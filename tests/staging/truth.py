"""Records how the tests killed which process, independently of raytrace, as JSON lines."""

import json
import os
import threading
import time

# Ray runs its workers at nice 15. On a busy machine, a worker once took a minute to start.
PATIENCE = 240


class Truth:
    """A file of expectations.

    Several threads may use it, and several processes too, because it appends whole lines.
    """

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()

    def write(self, **row):
        line = json.dumps({"time": time.time(), **row}) + "\n"
        with self.lock, open(self.path, "a") as file:
            file.write(line)

    def death(self, label, victim, killer, **expected):
        """Records that one of the killers in `killer` ends `victim`.

        A key that is left out is not checked. `sender` None means that no process may be named as
        the sender.
        """
        killers = [killer] if isinstance(killer, str) else killer
        self.write(kind="death", label=label, **victim, killer=killers, **expected)

    def alive(self, label, victim):
        """Records that `victim` survives what was done to it.

        It may die later, but no verdict may say that this act killed it.
        """
        self.write(kind="alive", label=label, **victim)

    def stranger(self, label, who):
        """Records that `who` only looks like a part of Ray.

        Its end must not be a death in the recording.
        """
        self.write(kind="stranger", label=label, **who)

    def failed(self, label, why):
        """Records that the staging itself did not work. The run then counts as failed."""
        self.write(kind="failed", label=label, why=why)


def process(pid):
    """Returns the pid and the start in clock ticks of a live process. None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None
    return {"pid": pid, "start_ticks": int(fields[19])}


def myself():
    return process(os.getpid())


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def catches(pid, number):
    """Returns whether the process has a handler for the signal, from its /proc status."""
    return has_signal(pid, "SigCgt:", number)


def blocks(pid, number):
    """Returns whether the first thread of the process blocks the signal, from its /proc status."""
    return has_signal(pid, "SigBlk:", number)


def has_signal(pid, row, number):
    try:
        with open(f"/proc/{pid}/status") as file:
            signals = next(line for line in file if line.startswith(row)).split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(int(signals, 16) >> (number - 1) & 1)


def gone(victim):
    return process(victim["pid"]) != victim


def wait_gone(victim, seconds=PATIENCE):
    """Waits until the process has ended (a zombie counts as ended)."""
    return wait_for(lambda: gone(victim), seconds)


def wait_for(condition, seconds=20, interval=0.02):
    """Returns the first true value of `condition`, or None after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value or None
        time.sleep(interval)


class Roll:
    """A folder in which processes that are about to die announce themselves, with a file each."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o1777)

    def announce(self, label, pid=None):
        victim = process(pid or os.getpid())
        path = os.path.join(self.folder, label.replace("/", "_"))
        with open(path + ".new", "w") as file:
            json.dump(victim, file)
        os.rename(path + ".new", path)
        return victim

    def wait(self, label, seconds=PATIENCE):
        path = os.path.join(self.folder, label.replace("/", "_"))
        if not wait_for(lambda: os.path.exists(path), seconds):
            raise TimeoutError(f"{label}: nobody announced itself within {seconds} s")
        with open(path) as file:
            return json.load(file)
