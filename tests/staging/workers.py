"""Stages deaths of Ray workers, from a driver on a running cluster.

Each entry of KINDS stages one death and records the truth about it.
"""

import signal
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import kill
from acts import Actor, once, task
from truth import PATIENCE, gone, wait_for

KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


def finish(reference, seconds=PATIENCE):
    """Waits for a reference. Returns the exception that it ends in, or None."""
    try:
        ray.get(reference, timeout=seconds)
    except Exception as error:  # noqa: BLE001 - any exception that Ray makes of the death
        return error
    return None


def begin(stage, label, act, *arguments, **options):
    """Starts a task that is about to run `act`. Returns its reference and its process."""
    options.setdefault("name", "task_" + label.split("/")[0])
    reference = task.options(**options).remote(stage.roll.folder, label, act, *arguments)
    return reference, stage.roll.wait(label)


def actor(stage, **options):
    made = Actor.options(**options).remote()
    return made, ray.get(made.who.remote(), timeout=PATIENCE)


def dies_alone(act, *arguments, **expected):
    def run(stage, label):
        reference, victim = begin(stage, label, act, *arguments)
        stage.truth.death(label, victim, sender=None, **expected)
        finish(reference)
        stage.ended(label, victim)
    return run


KINDS["os_exit_3"] = dies_alone("os_exit", 3, killer="exit", certainty="proven", exit_code=3)
KINDS["os_exit_0"] = dies_alone("os_exit", 0, killer="exit", certainty="proven", exit_code=0)
KINDS["segv"] = dies_alone("fault", killer="crash", certainty="proven", signal=signal.SIGSEGV)
KINDS["abort"] = dies_alone("abort", killer="crash", certainty="proven", signal=signal.SIGABRT)
# What a worker writes does not prove what the raylet or the kernel did.
KINDS["forged"] = dies_alone("lie", killer="exit", certainty="proven", exit_code=3)
KINDS["self_kill_9"] = dies_alone("kill_myself", 9, killer="crash", certainty="proven", signal=9)


@kind
def sys_exit_7(stage, label):
    # The exit code comes from Ray. The raylet sends SIGTERM, and SIGKILL 200 ms later, when the
    # worker has already exited.
    reference, victim = begin(stage, label, "sys_exit", 7)
    stage.truth.death(label, victim, "exit")
    finish(reference)
    stage.ended(label, victim)


def killed_by_shell(number, **expected):
    def run(stage, label):
        reference, victim = begin(stage, label, "sleep", 600)
        sender = kill.by_shell(victim, number)
        stage.truth.death(label, victim, "signal", sender=sender, **expected)
        finish(reference)
        stage.ended(label, victim)
    return run


KINDS["user_kill_9"] = killed_by_shell(9, certainty="proven", signal=9)
# Python's handler runs. Only the order of events shows that the signal is the cause. The raylet
# kills a worker that exits slowly.
KINDS["user_kill_15"] = killed_by_shell(15, certainty="inferred")


@kind
def user_kill_2_is_ignored(stage, label):
    reference, victim = begin(stage, label, "sleep", 2)
    kill.by_shell(victim, signal.SIGINT)
    error = finish(reference)
    if error is None:
        stage.truth.alive(label, victim)
    else:
        stage.truth.failed(label, f"SIGINT was not ignored: {error}")


@kind
def actor_kill_9(stage, label):
    made, victim = actor(stage)
    stage.truth.death(label, victim, "signal", certainty="proven", signal=9, sender=kill.by_shell(victim, 9))
    finish(made.who.remote())
    stage.ended(label, victim)


@kind
def thread_kill_9(stage, label):
    made, victim = actor(stage)
    stage.truth.death(label, victim, "signal", certainty="proven", signal=9, sender=kill.to_thread(victim, 9))
    finish(made.who.remote())
    stage.ended(label, victim)


@kind
def queued_kill_9(stage, label):
    made, victim = actor(stage)
    stage.truth.death(label, victim, "signal", certainty="proven", signal=9, sender=kill.queued(victim, 9))
    finish(made.who.remote())
    stage.ended(label, victim)


@kind
def first_second(stage, label):
    """The worker exits in the actor's constructor, before Ray knows it as an actor."""
    made = Actor.options().remote(stage.roll.folder, label, "os_exit", 4)
    # The process writes the file before it exits. It is therefore found even if it has already
    # ended.
    victim = stage.roll.wait(label)
    stage.truth.death(label, victim, "exit", certainty="proven", exit_code=4, sender=None)
    finish(made.who.remote())


@kind
def constructor_raises(stage, label):
    made = Actor.options().remote(stage.roll.folder, label, "raise_error")
    victim = stage.roll.wait(label)
    stage.truth.death(label, victim, "exit", exit_code=0, may_crash=True)
    finish(made.who.remote())
    stage.ended(label, victim)


def intended(end, **options):
    """Returns a kind in which `end` makes Ray end an actor intentionally.

    The worker exits by itself, so only Ray's messages give the reason.
    """
    def run(stage, label):
        made, victim = actor(stage, **options)
        stage.truth.death(label, victim, "ray-intended", signal=None, may_crash=True)
        kept = end(made)
        del made
        stage.ended(label, victim)
        del kept
    return run


def keep(end):
    def run(made):
        end(made)
        return made
    return run


KINDS["ray_kill"] = intended(keep(lambda made: ray.kill(made)))
KINDS["ray_kill_restart"] = intended(keep(lambda made: ray.kill(made, no_restart=False)), max_restarts=1)
KINDS["ray_kill_busy"] = intended(keep(lambda made: (made.act.remote("sleep", 60), time.sleep(0.5), ray.kill(made))))
KINDS["ray_terminate"] = intended(keep(lambda made: made.__ray_terminate__.remote()))
KINDS["exit_actor"] = intended(keep(lambda made: made.leave.remote()))
KINDS["out_of_scope"] = intended(lambda made: None)


@kind
def ray_kill_stopped(stage, label):
    """A stopped actor cannot exit. After 5 s the raylet sends SIGKILL (2.54 and later)."""
    if stage.version < (2, 54):
        return
    made, victim = actor(stage)
    kill.stop(victim)
    stage.truth.death(label, victim, "ray-intended", certainty="proven", signal=9, sender=stage.raylet_as_sender())
    ray.kill(made)
    stage.ended(label, victim)


@kind
def max_calls(stage, label):
    reference = once.options(name="once").remote(stage.roll.folder, label)
    victim = stage.roll.wait(label)
    stage.truth.death(label, victim, "ray-intended", exit_code=0, may_crash=True)
    finish(reference)
    stage.ended(label, victim)


@kind
def cancel_force(stage, label):
    reference, victim = begin(stage, label, "sleep", 600)
    stage.truth.death(label, victim, "ray-intended")
    ray.cancel(reference, force=True)
    finish(reference)
    stage.ended(label, victim)


@kind
def placement_group_removed(stage, label):
    group = placement_group([{"CPU": 0.1}])
    ray.get(group.ready(), timeout=PATIENCE)
    strategy = PlacementGroupSchedulingStrategy(group)
    reference, victim = begin(stage, label, "sleep", 600, scheduling_strategy=strategy)
    # Ray 2.9 writes no reason at all.
    killer = "ray-intended" if stage.version >= (2, 51) else "unknown"
    stage.truth.death(label, victim, killer, sender=stage.raylet_as_sender())
    remove_placement_group(group)
    finish(reference)
    stage.ended(label, victim)


@kind
def owner_dies(stage, label):
    """The owner of a running task is killed. The raylet ends the task's worker."""
    owner, boss = actor(stage)
    ray.get(owner.own_task.remote(stage.roll.folder, label))
    victim = stage.roll.wait(label)
    sender = kill.by_shell(boss, 9)
    stage.truth.death(label + "/owner", boss, "signal", certainty="proven", signal=9, sender=sender)
    stage.truth.death(label, victim, "ray-collapse", cause=label + "/owner", may_crash=True)
    stage.ended(label, victim)


@kind
def kernel_oom_task(stage, label):
    cgroup, limit = stage.small_cgroup(label)
    reference, victim = begin(stage, label, "eat", cgroup.path)
    stage.truth.death(
        label, victim, "kernel-oom-memcg", certainty="proven", signal=9, sender=None, limit_bytes=limit
    )
    finish(reference)
    stage.ended(label, victim)
    if cgroup.oom_kills() != 1:
        stage.truth.failed(label, f"the kernel counts {cgroup.oom_kills()} kills in {cgroup.path}")


@kind
def kernel_oom_actor(stage, label):
    cgroup, limit = stage.small_cgroup(label)
    made, victim = actor(stage)
    stage.truth.death(
        label, victim, "kernel-oom-memcg", certainty="proven", signal=9, sender=None, limit_bytes=limit
    )
    finish(made.act.remote("eat", cgroup.path))
    stage.ended(label, victim)


def by_the_monitor(stage, label, victim, error):
    """Checks that Ray itself names its monitor as the killer. Otherwise the staging failed."""
    words = f"{type(error).__name__} {error}"
    if "OutOfMemory" not in words and "running low on memory" not in words:
        stage.truth.failed(label, f"Ray's monitor did not kill it: {words[:300]}")
    stage.truth.death(
        label, victim, "ray-memory-monitor", certainty="proven", signal=9, sender=stage.raylet_as_sender()
    )
    stage.ended(label, victim)


def monitor_task(stage, label):
    reference, victim = begin(stage, label, "hog")
    by_the_monitor(stage, label, victim, finish(reference))


def monitor_actor(stage, label):
    made, victim = actor(stage)
    by_the_monitor(stage, label, victim, finish(made.act.remote("hog")))


# These run alone on the node, because the monitor chooses its victim among all running workers.
ALONE = {"monitor_task": monitor_task, "monitor_actor": monitor_actor}


def idle_reaped(stage, label):
    """Stages more idle workers than CPUs. Ray ends the surplus after a second."""
    names = [f"{label}/{number}" for number in range(8)]
    references = [task.options(num_cpus=0.01).remote(stage.roll.folder, name, "sleep", 2) for name in names]
    victims = [stage.roll.wait(name) for name in names]
    for reference in references:
        finish(reference)
    # Ray decides how many workers are a surplus. There is at least one.
    if not wait_for(lambda: any(map(gone, victims)), PATIENCE):
        stage.truth.failed(label, "no idle worker was ended")
    time.sleep(6)
    for name, victim in zip(names, victims):
        if gone(victim):
            stage.truth.death(name, victim, "ray-intended", exit_code=0, may_crash=True)


ALONE["idle_reaped"] = idle_reaped
