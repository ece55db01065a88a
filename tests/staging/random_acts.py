"""Stages random acts, with the kernel's own trace of them as the truth (random_truth.py).

    random_acts.py trace FOLDER            traces, and runs the senders that are older than the recorder
    random_acts.py perform FOLDER ARGUMENT…  draws the acts and performs them

Both write into FOLDER. The first says "ready", and ends with its standard input.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import random_sender
from cgroup import MEMORY, ROOT, V1, Cgroup
from random_draw import draw
from tracing import Tracing
from truth import process, wait_for

LIBC = ctypes.CDLL(None, use_errno=True)
HERE = os.path.dirname(os.path.abspath(__file__))
VICTIM = os.path.join(HERE, "random_victim.py")
PR_SET_CHILD_SUBREAPER, PIDFD_OPEN = 36, 434
PIDFD_GET_INFO, PIDFD_INFO_EXIT = 0xC040FF0B, 8
MIB = 1 << 20
OLDER = {"older": 2, "older leaderless": 1}
# The kernel prints ten of its reports in five seconds, of all OOM kills of the machine.
BETWEEN_OOM_S = 0.8
# With more at once, more acts are under way when a late recorder starts.
AT_ONCE, AT_ONCE_EARLY = 8, 24
# How long a process may take to start on a busy machine.
PATIENCE, STARTS = 60, 20
# A tracer waits for the stop of what it traces, which may end before that.
ANSWERS = 15
# What ends soon has ended by then. Anything else goes on.
SOON = 1.5


class Sender:
    """A process that sends signals."""

    def __init__(self, kind):
        command = [sys.executable, "-S", os.path.join(HERE, "random_sender.py"), *kind.split()[-1:]]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = json.loads(self.child.stdout.readline())

    def act(self, order):
        self.child.stdin.write(json.dumps(order) + "\n")
        self.child.stdin.flush()
        if not select.select([self.child.stdout], [], [], ANSWERS)[0]:
            self.child.kill()
        answer = self.child.stdout.readline()
        return json.loads(answer) if answer else "ended"

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class OlderSender:
    """A sender that the other process started, by its pipes."""

    locks = {name: threading.Lock() for name in OLDER}

    def __init__(self, kind, folder):
        self.lock = self.locks[kind]
        self.path = os.path.join(folder, kind.replace(" ", "-"))
        with open(self.path + ".pid") as file:
            self.pid = int(file.read())

    def act(self, order):
        with self.lock, open(self.path + ".in", "w") as orders, open(self.path + ".out") as answers:
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            return json.loads(answers.readline())

    def close(self):
        pass


class OwnThread:
    """A thread of this process."""

    pid = os.getpid()

    def act(self, order):
        found = []
        thread = threading.Thread(target=lambda: found.append(random_sender.act(order)))
        thread.start()
        thread.join()
        return found[0]

    def close(self):
        pass


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


class Freezer:
    """A group whose processes stand still."""

    def __init__(self, name):
        v1 = os.path.join(ROOT, "freezer")
        self.file, self.words, folder = "cgroup.freeze", ("1", "0"), ROOT
        if os.path.isdir(v1):
            self.file, self.words, folder = "freezer.state", ("FROZEN", "THAWED"), v1
        self.group = Cgroup(os.path.join(folder, name))

    def freeze(self, pid):
        self.group.add(pid)
        self.group._write(self.file, self.words[0])

    def thaw(self):
        self.group._write(self.file, self.words[1])


class Stage:
    """Performs the acts of a seed, and writes down each."""

    def __init__(self, options):
        self.options = options
        self.lock, self.oom = threading.Lock(), threading.Lock()
        self.script = os.path.join(options.folder, "execs.sh")
        with open(self.script, "w") as file:
            file.write(f"exec /bin/sh {self.script}\n")
        # A process with this script in its command line is a worker, as far as that says.
        self.worker = os.path.join(options.folder, "workers", "default_worker.py")
        os.makedirs(os.path.dirname(self.worker))
        os.symlink(VICTIM, self.worker)

    def write(self, row):
        with self.lock, open(os.path.join(self.options.folder, "acts.jsonl"), "a") as file:
            file.write(json.dumps(row) + "\n")

    def perform(self, number):
        options = self.options
        act = draw(options.seed, number, options.longest, options.attached, options.early)
        one = OneAct(self, act)
        try:
            one.perform()
        except Exception as error:  # Whatever fails in one act is written down with it.
            one.row["problem"] = f"{type(error).__name__}: {error}"
        finally:
            one.close()
        self.write(one.row)


class OneAct:
    def __init__(self, stage, act):
        self.stage, self.act = stage, act
        self.name = f"acts-{os.getpid()}-{act['number']}"
        self.row = {"seed": stage.options.seed, "early": stage.options.early, "act": act, "sends": [], "victims": []}
        self.groups, self.senders, self.beside = [], [], None
        self.freezer = None

    def perform(self):
        act, order = self.act, dict(self.act["order"])
        if act["kind"] == "oom":
            # The kernel takes it, and not its neighbour.
            order.update(cgroup=self.make_groups(act["layout"]), score=1000)
        if order.get("in_exec"):
            order["script"] = self.stage.script
        before = self.sender(act["before"]) if "before" in act else None
        senders = [(one, self.sender(one)) for one in act.get("sent", [])]
        self.start(order)
        if act.get("leaderless"):
            self.tell({"leave": True})
            wait_for(lambda: process(self.victim["pid"]) is None, PATIENCE)
        if act["state"] == "frozen":
            self.freezer = Freezer(self.name)
            self.freezer.freeze(self.victim["pid"])
        elif act["state"] == "stopped":
            self.send({"path": "kill", "signal": int(signal.SIGSTOP)}, OwnThread())
        if before:
            self.send(act["before"], before)
        self.sleep(act["gap"])
        if act["kind"] == "oom":
            with self.stage.oom:
                self.end(senders)
                time.sleep(BETWEEN_OOM_S)
        else:
            self.end(senders)
        self.conclude()

    def sleep(self, seconds):
        """Sleeps, but not longer than the process lives."""
        wait_for(self.gone, seconds, 0.0005 if seconds < 0.1 else 0.05)

    def gone(self):
        """Whether the process has ended, and not its first thread alone."""
        if process(self.victim["pid"]) is not None:
            return False
        try:
            return len(os.listdir(f"/proc/{self.victim['pid']}/task")) < 2
        except (FileNotFoundError, ProcessLookupError):
            return True

    def make_groups(self, layout):
        group, path = None, MEMORY
        for level, (name, limit) in enumerate(layout["groups"]):
            name = f"{self.name}-{name}" if level == 0 else name
            group = Cgroup(os.path.join(path, name), int(limit * MIB) if limit else None)
            if level + 1 < len(layout["groups"]):
                group.pass_down()
            path = group.path
            self.groups.append(group)
        self.row["groups"] = [
            [group.path.removeprefix(MEMORY), int(limit * MIB) if limit else None]
            for group, (_, limit) in zip(self.groups, layout["groups"])
        ]
        if layout["beside"]:
            self.fill(layout["beside"])
        return path

    def fill(self, beside):
        group = self.groups[beside["level"]].child("beside")
        self.groups.append(group)
        self.beside = self.popen({"cgroup": group.path, "holds": beside["mib"]})
        if not self.beside.stdout.readline():
            raise RuntimeError("the neighbour did not start")

    def popen(self, order):
        script = self.stage.worker if order.get("worker") else VICTIM
        command = [sys.executable, "-S", script, json.dumps(order)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # A group of its own, so that whatever it starts can be ended with it.
        return subprocess.Popen(command, **pipes, text=True, preexec_fn=os.setpgrp)

    def start(self, order):
        self.child = self.popen(order)
        # It may be ended before it is ready, by what it was started with.
        began = select.select([self.child.stdout], [], [], STARTS)[0]
        line = self.child.stdout.readline() if began else ""
        if not line:
            raise RuntimeError(f"the victim did not start: {self.child.poll()}")
        self.ready = json.loads(line)
        self.victim = process(self.ready["pid"])
        if self.victim is None:
            raise RuntimeError("the victim ended before its time")
        self.parent = self.row["parent"] = parent(self.victim["pid"])
        self.pidfd = LIBC.syscall(PIDFD_OPEN, self.victim["pid"], 0)
        if order.get("init_kills"):
            self.row["sends"].append({"sender": self.parent, "path": "kill", "signal": order["init_kills"]})
        self.row["victims"].append({**self.victim, "tids": self.ready["tids"]})

    def sender(self, sending):
        kind = sending["sender"]
        if kind == "thread":
            made = OwnThread()
        elif kind in OLDER:
            made = OlderSender(kind, self.stage.options.folder)
        else:
            made = Sender(kind)
        self.senders.append(made)
        return made

    def send(self, sending, sender, at=None):
        victim = self.victim["pid"]
        if self.act.get("at_init"):
            victim = self.parent
        tids = [tid for tid in self.ready["tids"] if os.path.exists(f"/proc/{victim}/task/{tid}")] or [victim]
        order = {**sending, "pid": victim, "tid": tids[self.act["number"] % len(tids)], "at": at}
        if sending.get("path") == "kill" and self.freezer and sending["signal"] == signal.SIGSTOP:
            return
        row = {"sender": sender.pid, "target": victim, "path": sending["path"], "signal": sending["signal"]}
        row["answer"] = sender.act(order)
        self.row["sends"].append(row)

    def end(self, senders):
        """Does what ends the process: its own act, and signals, at one time where there are several."""
        own = self.act.get("own")
        at = time.monotonic() + 0.02
        if own:
            self.tell({**own, "at": at + self.act["number"] % 10 / 1e4})
        threads = [
            threading.Thread(target=self.send_safely, args=(sending, sender, at + sending.get("offset", 0)))
            for sending, sender in senders
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def send_safely(self, sending, sender, at):
        try:
            self.send(sending, sender, at)
        except Exception as error:
            self.row["problem"] = f"{sending}: {error}"

    def tell(self, order):
        try:
            self.child.stdin.write(json.dumps(order) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass

    def conclude(self):
        """Waits for the end, or causes it, and learns the status."""
        order = self.act["order"]
        lasts = max(order.get("saves", 0), order.get("after", 0))
        if order.get("lives", 1000) < 1000:
            lasts = max(lasts, order["lives"])
        if self.freezer:
            time.sleep(0.2)
            self.freezer.thaw()
        if self.act["state"] == "stopped" and not wait_for(self.gone, 0.3):
            self.send({"path": "kill", "signal": int(signal.SIGCONT)}, OwnThread())
        if not wait_for(self.gone, lasts + (10 if self.act["kind"] == "oom" else SOON)):
            self.act.pop("at_init", None)
            self.send({"path": "kill", "signal": int(signal.SIGKILL)}, OwnThread())
            if not wait_for(self.gone, PATIENCE):
                raise RuntimeError("it lives on")

    def status(self):
        """Returns the wait status of the victim, and reaps it if it is a child of this process by now."""
        if self.child.pid == self.victim["pid"]:
            code = self.child.wait(PATIENCE)
            return -code if code < 0 else code << 8
        # Its parent is gone. The kernel has given it to this process, or reaped it.
        return wait_for(self.adopted_status, 5)

    def adopted_status(self):
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.victim["pid"], os.WNOHANG)
            return ("status", status & ~0x80) if pid else None
        info = bytearray(struct.pack("Q", PIDFD_INFO_EXIT) + bytes(56))
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.pidfd, PIDFD_GET_INFO, info)
            if struct.unpack_from("Q", info)[0] & PIDFD_INFO_EXIT:
                return ("status", struct.unpack_from("i", info, 60)[0] & ~0x80)
        return None

    def close(self):
        if self.freezer:
            with contextlib.suppress(OSError):
                self.freezer.thaw()
        for sender in self.senders:
            with contextlib.suppress(OSError):
                sender.close()
        if hasattr(self, "child"):
            self.close_child()
        if self.beside:
            self.beside.kill()
            self.beside.wait()
        for group in reversed(self.groups):
            group.destroy()
        if self.freezer:
            self.freezer.group.destroy()

    def close_child(self):
        if self.row["victims"] and self.child.pid == self.victim["pid"]:
            status = self.status()
        else:
            # The process in between has not reaped it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
            found = self.status() if self.row["victims"] else None
            status = found[1] if found else None
        if self.row["victims"]:
            self.row["victims"][0]["status"] = status
            os.close(self.pidfd)


def perform(options):
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stage = Stage(options)
    numbers = [options.only] if options.only is not None else range(options.count)
    with ThreadPoolExecutor(AT_ONCE_EARLY if options.early else AT_ONCE) as pool:
        list(pool.map(stage.perform, numbers))
    stage.write({"performer": os.getpid()})


def start_older(folder):
    """Starts senders that are there before the recorder, and gives them pipes with names."""
    children = []
    for kind in OLDER:
        path = os.path.join(folder, kind.replace(" ", "-"))
        for end in (".in", ".out"):
            os.mkfifo(path + end)
        # Both ends stay open here, so that nobody waits for the other.
        pipes = [os.open(path + end, os.O_RDWR) for end in (".in", ".out")]
        command = [sys.executable, "-S", os.path.join(HERE, "random_sender.py"), *kind.split()[1:]]
        child = subprocess.Popen(command, stdin=pipes[0], stdout=pipes[1], text=True)
        with os.fdopen(os.dup(pipes[1])) as output:
            output.readline()
        with open(path + ".pid", "w") as file:
            file.write(str(child.pid))
        children.append(child)
    return children


def kernel_log():
    """Opens the kernel log at its end. None if that is not allowed."""
    with contextlib.suppress(OSError):
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(log, 0, os.SEEK_END)
        return log
    return None


def read_log(log):
    lines = []
    while log is not None:
        try:
            lines.append(os.read(log, 8192).decode(errors="replace"))
        except BlockingIOError:
            break
        except BrokenPipeError:  # Older lines were overwritten.
            continue
    return "".join(lines)


def trace(folder):
    tracing, log = Tracing(), kernel_log()
    children = start_older(folder)
    try:
        print("ready", flush=True)
        sys.stdin.read()
        with open(os.path.join(folder, "trace.txt"), "w") as file:
            file.write(tracing.text())
        with open(os.path.join(folder, "kernel.log"), "w") as file:
            file.write(read_log(log))
        if tracing.lost():
            print(f"{tracing.lost()} events found no room in the trace", flush=True)
    finally:
        tracing.close()
        for child in children:
            child.kill()
            child.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["trace", "perform"])
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--longest", type=float, default=5)
    parser.add_argument("--attached", action="store_true")
    parser.add_argument("--early", action="store_true", help="the recorder starts later")
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    if options.what == "trace":
        trace(options.folder)
    else:
        perform(options)


if __name__ == "__main__":
    main()
