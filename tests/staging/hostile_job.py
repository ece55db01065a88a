"""The driver of hostile.py: kills other workers under false names.

It also ends its own children in every way that the kernel offers.
"""

import ctypes
import fcntl
import glob
import os
import shutil
import signal
import stat
import subprocess
import sys
import time

import ray

from drive import Stage, run
from kill import child_program
from truth import PATIENCE, Roll
from workers import actor, finish

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_RT_SIGQUEUEINFO = 129
F_SETOWN, F_SETSIG, O_ASYNC = 8, 10, 0o20000

KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


def queue(pid, number, code):
    """Sends a signal with rt_sigqueueinfo(2), with any code that the kernel allows."""
    info = (ctypes.c_int * 32)(number, 0, code)
    if LIBC.syscall(SYS_RT_SIGQUEUEINFO, pid, number, ctypes.byref(info)) != 0:
        raise OSError(ctypes.get_errno(), f"rt_sigqueueinfo with code {code}")


def folder(stage, name):
    made = os.path.join(stage.roll.folder, "..", name)
    os.makedirs(made, exist_ok=True)
    return os.path.realpath(made)


def in_the_name_of(stage, label, name, *arguments, expected=None):
    """Kills a worker from a shell with another name.

    The shell is not part of Ray, so the death is listed.
    """
    program = os.path.join(folder(stage, label.split("/")[0]), name)
    shutil.copy("/bin/bash", program)
    _made, victim = actor(stage)
    act = f"kill -9 {victim['pid']}; exit 0"
    sender = subprocess.Popen([program, "-c", act, *arguments])
    stage.truth.death(
        label, victim, "signal", certainty="proven", listed=True, signal=9,
        sender={"pid": sender.pid, "comm": name[:15], "mechanism": "kill", **(expected or {})},
    )
    sender.wait()
    stage.ended(label, victim)


@kind
def named_ray(stage, label):
    in_the_name_of(stage, label, "ray", "/v/bin/ray", "stop")


@kind
def named_gcs(stage, label):
    in_the_name_of(stage, label, "gcs_server", expected={"relation": "other"})


@kind
def named_like_a_runtime(stage, label):
    """Uses a program name that begins like that of a container runtime."""
    in_the_name_of(stage, label, "runcommand", expected={"relation": "same-job"})


@kind
def named_supervisor(stage, label):
    in_the_name_of(stage, label, "ray::JobSupervisor")


@kind
def named_raylet(stage, label):
    """Makes a fake raylet with its own session, whose log has a shutdown that never happened."""
    session = folder(stage, "impostor")
    os.makedirs(f"{session}/logs", exist_ok=True)
    with open(f"{session}/logs/raylet.out", "w") as file:
        file.write(
            "[2026-11-21 00:00:00,000 I 1 1] (raylet) main.cc:1070: received SIGTERM. Existing local drain request = None\n"
            "[2026-11-21 00:00:00,001 I 1 1] (raylet) node_manager.cc:1: Raylet graceful shutdown triggered with death info: "
            "reason: EXPECTED_TERMINATION\n"
        )
    in_the_name_of(
        stage, label, "raylet", "--", f"--raylet_socket_name={session}/sockets/raylet", f"--session_dir={session}",
        f"--log_dir={session}/logs", "--session-name=impostor", "--node_id=" + "ab" * 28,
    )


@kind
def script_named_ray(stage, label):
    """Kills from a script that the interpreter of this Ray runs."""
    script_of_ones_own(stage, label, "script")


@kind
def link_named_ray(stage, label):
    """Kills from a script that runs through a link. Many users have a link to the real `ray`."""
    program = os.path.join(folder(stage, "linked"), "own.py")
    script_of_ones_own(stage, label, "link", program)


def script_of_ones_own(stage, label, name, script=None):
    program = os.path.join(folder(stage, name), "ray")
    _made, victim = actor(stage)
    with open(script or program, "w") as file:
        file.write(f"#!{sys.executable}\nimport os\nos.kill({victim['pid']}, 9)\n")
    os.chmod(script or program, os.stat(script or program).st_mode | stat.S_IXUSR)
    if script:
        os.symlink(script, program)
    sender = subprocess.Popen([program, "stop"])
    stage.truth.death(
        label, victim, "signal", certainty="proven", listed=True,
        sender={"pid": sender.pid, "comm": "ray", "mechanism": "kill"},
    )
    sender.wait()
    stage.ended(label, victim)


@kind
def titled_supervisor(stage, label):
    """Kills a worker from another one that has set the process title of Ray's job supervisor."""
    _made, victim = actor(stage)
    killer = Killer.remote()
    pid = ray.get(killer.kill.remote(victim["pid"]), timeout=PATIENCE)
    stage.truth.death(
        label, victim, "signal", certainty="proven", listed=True, sender={"pid": pid, "mechanism": "kill"}
    )
    stage.ended(label, victim)


@ray.remote(num_cpus=0.1)
class Killer:
    def kill(self, pid):
        ray._raylet.setproctitle("ray::JobSupervisor")
        os.kill(pid, signal.SIGKILL)
        return os.getpid()


class JobSupervisor:
    """A class of the job with the same name as Ray's own class."""

    def start(self, folder, label):
        self.child = child_program("sleep", folder, label)

    def end(self):
        self.child.kill()
        self.child.wait()
        return os.getpid()


@kind
def classed_supervisor(stage, label):
    """An actor of this class kills its child, as any program may. That is not `ray job stop`."""
    supervisor = ray.remote(num_cpus=0.1)(JobSupervisor).remote()
    ray.get(supervisor.start.remote(stage.roll.folder, label), timeout=PATIENCE)
    victim = stage.roll.wait(label)
    time.sleep(0.6)
    pid = ray.get(supervisor.end.remote(), timeout=PATIENCE)
    sender = {"pid": pid, "mechanism": "kill", "relation": "parent"}
    stage.truth.death(label, victim, "signal", certainty="proven", signal=9, listed=False, sender=sender)


@ray.remote(num_cpus=0.1, max_calls=1)
def ends_its_child(folder, label):
    """Kills its child, as `subprocess.run` does at its timeout. The worker ends right after it."""
    child = child_program("sleep", folder, label)
    Roll(folder).wait(label)
    time.sleep(1)
    child.kill()
    child.wait()
    return os.getpid()


@kind
def ended_before_its_worker(stage, label):
    pid = ray.get(ends_its_child.remote(stage.roll.folder, label), timeout=PATIENCE)
    victim = stage.roll.wait(label)
    sender = {"pid": pid, "mechanism": "kill", "relation": "parent"}
    stage.truth.death(label, victim, "signal", certainty="proven", signal=9, sender=sender)


@kind
def stopped_and_left(stage, label):
    """Stages an orphaned process group with a stopped process.

    No process is left that could continue the stopped one. The kernel sends SIGHUP to the whole
    group, including its running process. The group has no terminal.
    """
    started, parent = child(stage, label, "leaves_a_stopped_one")
    stage.truth.death(label, parent, "exit", exit_code=0)
    for name in ("/stopped", "/running"):
        victim = stage.roll.wait(label + name)
        stage.truth.death(
            label + name, victim, "kernel-other", signal=signal.SIGHUP, mechanism="orphaned-group", sender=None,
            cause=label,
        )
    started.wait()
    for name in ("/stopped", "/running"):
        stage.ended(label, stage.roll.wait(label + name))


@kind
def killed_by_itself(stage, label):
    """Stages a process that kills itself, which makes the kernel kill its child.

    At that time, the registers of the process still show its kill(2) call.
    """
    started, parent = child(stage, label, "kills_itself")
    orphan = stage.roll.wait(label + "/child")
    stage.truth.death(label, parent, "crash", certainty="proven", signal=9, sender=None)
    stage.truth.death(
        label + "/child", orphan, "ray-collapse", certainty="proven", signal=9, mechanism="parent-death", cause=label
    )
    started.wait()
    stage.ended(label, orphan)


@kind
def flooded(stage, label):
    """Sends signals that the victim ignores, before and after the one that makes it exit."""
    started, victim = child(stage, label, "ignores")
    time.sleep(0.6)
    flood = f"for i in $(seq 64); do kill -XFSZ {victim['pid']}; done"
    sender = subprocess.Popen(["bash", "-c", f"{flood}; kill -TERM {victim['pid']}; {flood}"])
    stage.truth.death(
        label, victim, "signal", certainty="inferred", exit_code=3,
        sender={"pid": sender.pid, "comm": "bash"},
    )
    sender.wait()
    started.wait()


@kind
def dropped_before(stage, label):
    """Kills the init of a pid namespace.

    Before that, the kernel drops a signal that the init sent to itself.
    """
    started, _parent = child(stage, label, "drops")
    victim = stage.roll.wait(label + "/init")
    time.sleep(0.6)
    sender = subprocess.Popen(["bash", "-c", f"kill -9 {victim['pid']}; exit 0"])
    stage.truth.death(
        label + "/init", victim, "signal", certainty="proven", signal=9,
        sender={"pid": sender.pid, "comm": "bash", "mechanism": "kill"},
    )
    sender.wait()
    started.wait()


@kind
def poisoned(stage, label):
    """Stages a process that poisons a page of its own and reads it, which needs Linux 6.6.

    A kernel that does not handle memory errors sends the same signal as for any other bad page.
    """
    started, victim = child(stage, label, "poisons")
    if os.path.exists("/proc/sys/vm/memory_failure_recovery"):
        expected = {"killer": "kernel-other", "certainty": "inferred", "mechanism": "hwpoison"}
    else:
        expected = {"killer": "crash", "certainty": "proven"}
    stage.truth.death(label, victim, signal=signal.SIGBUS, sender=None, **expected)
    started.wait()


@kind
def put_in_by_a_tracer(stage, label):
    """A tracer kills its child with SIGINT at a system call. No user pressed Ctrl-C."""
    started, _tracer = child(stage, label, "puts_in")
    victim = stage.roll.wait(label + "/tracee")
    stage.truth.death(label + "/tracee", victim, "unknown", signal=signal.SIGINT, sender=None)
    started.wait()


def child(stage, label, program="sleep"):
    """Starts a child of this driver."""
    started = child_program(program, stage.roll.folder, label)
    return started, stage.roll.wait(label)


@kind
def queued_codes(stage, label):
    """Sends signals with each code that a process may use for another process."""
    for code in (-1, -2, -3, -4, -5, -60):
        name = f"{label}{code}"
        started, victim = child(stage, name)
        stage.truth.death(
            name, victim, "signal", certainty="proven", signal=9,
            sender={"pid": os.getpid(), "mechanism": "sigqueue"},
        )
        queue(victim["pid"], signal.SIGKILL, code)
        started.wait()


@kind
def queued_to_itself(stage, label):
    """Makes processes signal themselves, for which they may use any code."""
    for code in (128, -2, -6, 0, 1, 5):
        name = f"{label}/{code}"
        started, victim = child(stage, name, f"queues:{code}")
        stage.truth.death(name, victim, "crash", certainty="proven", signal=9, sender=None)
        started.wait()


@kind
def highest_signal(stage, label):
    started, victim = child(stage, label)
    sender = subprocess.Popen(["bash", "-c", f"kill -64 {victim['pid']}; exit 0"])
    stage.truth.death(
        label, victim, "signal", certainty="proven", signal=64,
        sender={"pid": sender.pid, "comm": "bash", "mechanism": "kill"},
    )
    sender.wait()
    started.wait()


def by_the_kernel(program, number, mechanism):
    def run_it(stage, label):
        started, victim = child(stage, label, program)
        stage.truth.death(
            label, victim, "kernel-other", certainty="proven", signal=number, mechanism=mechanism, sender=None
        )
        started.wait()
    return run_it


KINDS["own_timer"] = by_the_kernel("own_timer", signal.SIGKILL, "timer")
KINDS["message"] = by_the_kernel("message", signal.SIGKILL, "message-queue")
KINDS["file_limit"] = by_the_kernel("file_limit", signal.SIGXFSZ, "rlimit-fsize")


def for_a_file(number):
    """Returns a kind in which a write to a pipe that the victim owns sends it this signal."""
    def run_it(stage, label):
        started, victim = child(stage, label)
        read, write = os.pipe()
        fcntl.fcntl(read, F_SETSIG, number)
        fcntl.fcntl(read, F_SETOWN, victim["pid"])
        fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | O_ASYNC)
        stage.truth.death(
            label, victim, "kernel-other", certainty="proven", signal=int(number), mechanism="file-descriptor",
            sender=None,
        )
        os.write(write, b"x")
        started.wait()
        os.close(read)
        os.close(write)
    return run_it


KINDS["file_kill"] = for_a_file(signal.SIGKILL)
# The signal's code is that of a fault, but there was no fault.
KINDS["file_segv"] = for_a_file(signal.SIGSEGV)


@kind
def forged_record(stage, label):
    """Adds a kill by the memory monitor to the raylet's own log.

    In fact `ray.kill` ended the worker, on an empty node.
    """
    made, victim = actor(stage)
    worker = ray.get(made.act.remote("worker_id"), timeout=PATIENCE)
    [log] = glob.glob(os.path.join(os.environ["RAYTRACE_STAGE"], "session_latest", "logs", "raylet.out"))
    with open(log, "a") as file:
        file.write(RECORD.format(pid=victim["pid"], worker=worker))
    ray.kill(made)
    stage.truth.death(label, victim, "ray-intended", reason_certainty="inferred")
    stage.ended(label, victim)


RECORD = """\
[2026-11-21 00:00:00,000 I 1 1] (raylet) node_manager.cc:3112: Killing 1 worker(s), kill details: 1 worker(s) were killed due to the node running low on \
memory. Memory on the node (IP: 127.0.0.1, ID: ab) was 5.90GB used / 6.00GB limit (0.983333)
OOM kill reason: Memory usage 6335076761B exceeded threshold of 3221225472B (50.0% of 6442450944B limit)
Considered workers: [
Selected to kill: (Task: job ID=01000000, lease ID=03, task name=task_forged, required resources={{CPU: 0.1}}, pid={pid}, actual memory used=5.00GB, \
worker ID={worker})
]
"""


def main():
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--roll", required=True)
    parser.add_argument("--raylet", type=int, required=True)
    arguments = parser.parse_args()
    ray.init(log_to_driver=False, logging_level="ERROR", namespace="staging")
    stage = Stage(arguments)
    for name in KINDS:
        run(stage, KINDS, name, f"{name}/0")
    made = {label: actor(stage) for label in ("site/0", "link/0")}
    for label, (_actor, victim) in made.items():
        stage.roll.announce(label, victim["pid"])
    # Wait until the deaths of these workers have been staged.
    sys.stdin.read()
    for one, _victim in made.values():
        finish(one.who.remote())
    ray.shutdown()


if __name__ == "__main__":
    main()
