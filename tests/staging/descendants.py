"""Stages deaths of subprocesses whose Ray worker survives.

Each entry of KINDS stages one death and records the truth about it.
"""

import os
import signal
import time

import ray

import kill
from acts import Host
from truth import PATIENCE, blocks, catches, process, wait_for

KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


class Child:
    """One subprocess of its own worker."""

    def __init__(self, stage, label, program, start="start"):
        self.host = Host.remote(stage.roll.folder)
        self.boss = ray.get(self.host.who.remote(), timeout=PATIENCE)
        if start == "start":
            self.pid = ray.get(self.host.start.remote(program, label))
            self.victim = stage.roll.wait(label)
        else:
            self.pid = ray.get(getattr(self.host, start).remote(label))
            self.victim = process(self.pid)

    def done(self, stage, label):
        """Checks that the child has ended and its worker has not."""
        ray.get(self.host.wait.remote(label), timeout=PATIENCE)
        stage.truth.alive(label + "/worker", self.boss)


def killed(program, killer_of, number, caught=False, killer="signal", **expected):
    def run(stage, label):
        child = Child(stage, label, program)
        # Wait until the child has passed the pause after its announcement.
        time.sleep(0.6)
        if caught and not wait_for(lambda: catches(child.pid, number), PATIENCE):
            stage.truth.failed(label, f"signal {number} has no handler")
        if "term_blocked" in program or program == "term_waited_for":
            wait_for(lambda: blocks(child.pid, number), PATIENCE)
        sender = killer_of(child.victim, number)
        sender = sender if killer == "signal" else None
        stage.truth.death(label, child.victim, killer, sender=sender, role="descendant", **expected)
        child.done(stage, label)
    return run


KINDS["child_kill_9"] = killed("sleep", kill.by_shell, 9, certainty="proven", signal=9)
# Python has no handler for SIGTERM, so this is the default action.
KINDS["child_kill_15"] = killed("sleep", kill.by_shell, 15, certainty="proven", signal=15)
KINDS["child_term_caught"] = killed("term_caught", kill.by_shell, 15, caught=True, certainty="inferred", exit_code=0, signal=None)

# No time after a signal that was caught proves anything.
KINDS["child_term_caught_late"] = killed(
    "term_caught_late", kill.by_shell, 15, caught=True, certainty="inferred", exit_code=143, signal=None
)
KINDS["child_term_waited_for"] = killed(
    "term_waited_for", kill.by_shell, 15, certainty="inferred", exit_code=0, signal=None
)
# Nobody takes a signal that is still pending at the end.
KINDS["child_exits_term_pending"] = killed(
    "term_blocked:exit", kill.by_shell, 15, killer="exit", certainty="proven", exit_code=3
)
KINDS["child_aborts_term_pending"] = killed(
    "term_blocked:abort", kill.by_shell, 15, killer="crash", certainty="proven", signal=signal.SIGABRT
)


def ends(program, killer, **expected):
    def run(stage, label):
        child = Child(stage, label, program)
        stage.truth.death(label, child.victim, killer, **expected)
        child.done(stage, label)
    return run


PROVEN = {"certainty": "proven"}
KINDS["child_cuda_exception"] = ends("cuda_out_of_memory", "exit", exit_code=1, sender=None, **PROVEN)
KINDS["child_exec"] = ends("execs", "exit", exit_code=5, sender=None, **PROVEN)
KINDS["child_bus_error"] = ends("bus_error", "crash", signal=signal.SIGBUS, sender=None, **PROVEN)
# A BPF program's signal to the process that runs looks the same. A timer may interrupt any process.
INFERRED = {"certainty": "inferred"}
KINDS["child_cpu_limit"] = ends("cpu_limit", "kernel-other", signal=signal.SIGXCPU, mechanism="rlimit-cpu", **INFERRED)
KINDS["child_hard_cpu_limit"] = ends("hard_cpu_limit", "kernel-other", signal=9, mechanism="rlimit-cpu", **INFERRED)
KINDS["child_alarm"] = ends("alarm", "kernel-other", signal=signal.SIGALRM, mechanism="timer")


@kind
def child_alarm_while_stopped(stage, label):
    """Stages a timer that expires while its process is stopped.

    While the process was stopped, a tracer might have replaced the signal with another one. The
    sender of the signal that killed is therefore inferred.
    """
    child = Child(stage, label, "alarm_while_stopped")
    stage.truth.death(
        label, child.victim, "kernel-other", signal=signal.SIGALRM, mechanism="timer", certainty="inferred"
    )
    time.sleep(2)
    os.kill(child.victim["pid"], signal.SIGCONT)
    child.done(stage, label)


KINDS["child_seccomp"] = ends("seccomp", "kernel-other", signal=signal.SIGSYS, **PROVEN)


@kind
def child_parent_death_signal(stage, label):
    child = Child(stage, label, "mourns")
    orphan = stage.roll.wait(label + "/child")
    time.sleep(0.5)
    sender = kill.by_shell(child.victim, 9)
    stage.truth.death(label, child.victim, "signal", signal=9, sender=sender, **PROVEN)
    stage.truth.death(
        label + "/child", orphan, ["ray-collapse", "signal"], signal=9, mechanism="parent-death", cause=label, **PROVEN
    )
    child.done(stage, label)


@kind
def child_of_ended_thread(stage, label):
    """Stages the end of a thread that had started a child. How its process ends later is no cause."""
    child = Child(stage, label, "thread_mourns")
    orphan = stage.roll.wait(label + "/child")
    stage.truth.death(
        label + "/child", orphan, "kernel-other", signal=9, mechanism="parent-death", **PROVEN
    )
    stage.truth.death(label, child.victim, "exit", exit_code=0, sender=None, **PROVEN)
    child.done(stage, label)


@kind
def child_pid_namespace(stage, label):
    if not privileged():
        return
    child = Child(stage, label, None, start="start_namespace")
    # The processes are unshare, its child (the init), and the children of the init.
    init = wait_for(lambda: children(child.pid))[0]
    others = wait_for(lambda: len(children(init)) == 2 and children(init))
    victim, members = process(init), [process(pid) for pid in others]
    sender = kill.by_shell(victim, 9)
    stage.truth.death(label, victim, "signal", signal=9, sender=sender, **PROVEN)
    for number, member in enumerate(members):
        stage.truth.death(
            f"{label}/member{number}", member, "kernel-other",
            signal=9, mechanism="pid-namespace-exit", cause=label, **PROVEN,
        )
    child.done(stage, label)


def privileged():
    """Returns whether this process may make namespaces and choose pids (CAP_SYS_ADMIN)."""
    with open("/proc/self/status") as file:
        effective = next(line for line in file if line.startswith("CapEff:")).split()[1]
    return bool(int(effective, 16) >> 21 & 1)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(one) for one in file.read().split()]
    except FileNotFoundError:
        return []


@kind
def child_cgroup_kill(stage, label):
    unified = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    folder = f"{unified}/raytrace-{os.getpid()}-{label.replace('/', '-')}"
    if not os.access(unified, os.W_OK):
        return
    child = Child(stage, label, "sleep")
    sender = kill.by_cgroup(child.victim, folder)
    stage.truth.death(label, child.victim, "signal", signal=9, sender=sender, **PROVEN)
    child.done(stage, label)
    os.rmdir(folder)


@kind
def child_pid_reused(stage, label):
    if not privileged():
        return
    host = Host.remote(stage.roll.folder)
    pair = ray.get(host.same_pid_twice.remote(label), timeout=PATIENCE)
    if pair is None:
        print(f"{label}: the pid was taken each time; not staged")
        return
    first, second = pair
    stage.truth.death(label + "/first", first, "exit", exit_code=3, **PROVEN)
    sender = kill.by_shell(second, 9)
    stage.truth.death(label + "/second", second, "signal", signal=9, sender=sender, **PROVEN)
    ray.get(host.wait.remote(label))


def out_of_memory(stage, label, count):
    """Runs `count` children that exceed the limits of their own cgroups, all at the same moment."""
    host = Host.remote(stage.roll.folder)
    boss = ray.get(host.who.remote(), timeout=PATIENCE)
    made = []
    for number in range(count):
        name = f"{label}/{number}"
        cgroup, limit = stage.small_cgroup(name, number)
        ray.get(host.start_in.remote(name, cgroup.path))
        made.append((name, cgroup, limit))
    victims = [stage.roll.wait(name) for name, _, _ in made]
    # All have passed the pause after their announcement.
    time.sleep(0.6)
    ray.get(host.feed.remote([name for name, _, _ in made]))
    for (name, cgroup, limit), victim in zip(made, victims):
        stage.truth.death(
            name, victim, "kernel-oom-memcg",
            signal=9, sender=None, limit_bytes=limit, role="descendant", **PROVEN,
        )
        stage.ended(name, victim)
        ray.get(host.wait.remote(name))
        if cgroup.oom_kills() != 1:
            stage.truth.failed(name, f"the kernel counts {cgroup.oom_kills()} kills in {cgroup.path}")
    stage.truth.alive(label + "/worker", boss)


@kind
def child_kernel_oom(stage, label):
    out_of_memory(stage, label, 1)


def thirty_kernel_ooms(stage, label):
    out_of_memory(stage, label, 30)


def killed_with_its_worker(end, killer):
    """Returns a kind in which Ray or a dying worker ends the worker's child."""
    def run(stage, label):
        if stage.version < (2, 57):
            return
        child = Child(stage, label, "sleep")
        time.sleep(0.5)
        end(stage, label, child)
        stage.truth.death(label, child.victim, killer, cause=label + "/worker")
        stage.ended(label, child.victim)
    return run


def kill_the_worker(stage, label, child):
    sender = kill.by_shell(child.boss, 9)
    stage.truth.death(label + "/worker", child.boss, "signal", signal=9, sender=sender, **PROVEN)


KINDS["child_of_killed_worker"] = killed_with_its_worker(kill_the_worker, "ray-collapse")


@kind
def child_of_ended_worker(stage, label):
    if stage.version < (2, 57):
        return
    child = Child(stage, label, "sleep")
    time.sleep(0.5)
    stage.truth.death(label + "/worker", child.boss, "ray-intended")
    stage.truth.death(label, child.victim, ["ray-intended", "ray-collapse", "signal"])
    ray.kill(child.host)
    stage.ended(label, child.victim)


ALONE = {"thirty_kernel_ooms": thirty_kernel_ooms}
