"""Stages deaths that end a whole Ray node or job.

Each entry of KINDS gets its own cluster.
"""

import concurrent.futures
import signal
import subprocess
import time
import traceback

import kill
from cgroup import Cgroup
from cluster import BIN, Cluster
from truth import PATIENCE, Roll, comm, gone, wait_for, wait_gone

KINDS = {}
PROVEN = {"certainty": "proven"}


def kind(function):
    KINDS[function.__name__] = function
    return function


class Node:
    """A cluster with a driver, two busy actors and one busy task."""

    def __init__(self, cluster, truth, label):
        self.cluster, self.truth, self.label = cluster, truth, label
        self.roll = Roll(cluster.folder + "/roll")
        self.program = cluster.python("job.py", self.roll.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.workers = [self.roll.wait(f"busy{number}") for number in range(3)]
        self.driver = self.roll.wait("driver")
        # Leave time for Ray's logs and the recorder to learn of every process.
        time.sleep(1.5)

    def killed(self, name, victim, number=9):
        label = f"{self.label}/{name}"
        sender = kill.by_shell(victim, number)
        self.truth.death(label, victim, "signal", signal=number, sender=sender, **PROVEN)
        return label

    def follow(self, victims, cause, killers, **expected):
        for number, victim in enumerate(victims):
            self.truth.death(f"{self.label}/follower{number}", victim, killers, cause=cause, **expected)

    def ended(self, victims, seconds=PATIENCE):
        for victim in victims:
            if not wait_gone(victim, seconds):
                self.truth.failed(self.label, f"pid {victim['pid']} ({comm(victim['pid'])}) was still alive")


@kind
def raylet_killed(node):
    cause = node.killed("raylet", node.cluster.raylet)
    node.follow(node.workers, cause, "ray-collapse")
    node.ended(node.workers)


@kind
def agent_killed(node):
    """A user kills an agent. The raylet then kills every worker, and ends too."""
    agent = node.cluster.agent()
    cause = node.killed("agent", agent)
    node.follow([*node.workers, node.cluster.raylet], cause, "ray-collapse")
    node.ended([*node.workers, node.cluster.raylet])


@kind
def agent_out_of_memory(node):
    """The kernel kills an agent at its own limit. All other deaths are a consequence of that."""
    agent = node.cluster.agent()
    cgroup = Cgroup(f"{node.cluster.small.path}/agent-{node.cluster.raylet['pid']}", 1 << 30)
    cgroup.add(agent["pid"])
    label = f"{node.label}/agent"
    # The agent's next allocations are charged to this cgroup, which allows almost nothing.
    limit = 16 << 10
    cgroup.limit(limit)
    if not wait_for(lambda: gone(agent) or node.cluster.ask_agent(), 30):
        node.truth.failed(label, "the agent was not killed at its limit")
        return
    node.truth.death(label, agent, "kernel-oom-memcg", signal=9, sender=None, limit_bytes=limit, **PROVEN)
    node.follow([*node.workers, node.cluster.raylet], label, "ray-collapse")
    node.ended([*node.workers, node.cluster.raylet])


@kind
def gcs_killed(node):
    cause = node.killed("gcs", node.cluster.one("gcs/gcs_server"))
    node.ended([node.cluster.raylet], 90)
    node.follow([node.cluster.raylet, *node.workers], cause, "ray-collapse")
    node.ended(node.workers)


@kind
def gcs_killed_under_block(node):
    """`ray start --block` kills the rest of its node when one of the node's processes fails."""
    cause = node.killed("gcs", node.cluster.one("gcs/gcs_server"))
    node.ended([node.cluster.raylet])
    node.follow([node.cluster.raylet, *node.workers], cause, "ray-collapse")
    node.ended(node.workers)


@kind
def driver_killed(node):
    """A user kills the driver, which ends the job. Ray ends its workers. The cluster survives."""
    cause = node.killed("driver", node.driver)
    node.truth.write(kind="job", driver=node.driver, outcome="failed", cause=cause)
    node.follow(node.workers, cause, "ray-collapse")
    node.ended(node.workers)


@kind
def driver_interrupted(node):
    """Sends SIGINT to the driver, as Ctrl-C does. Python turns it into an exception."""
    label = f"{node.label}/driver"
    sender = kill.by_shell(node.driver, signal.SIGINT)
    node.truth.death(label, node.driver, "signal", sender=sender)
    node.follow(node.workers, label, ["ray-collapse", "ray-intended"])
    node.ended([node.driver, *node.workers])


def stopped(node, *flags):
    """Runs `ray stop`, which ends every Ray process that it sees.

    Here it sees only the processes of the cluster's own pid namespace.
    """
    victims = [node.cluster.raylet, *(node.cluster.outside(worker) for worker in node.workers)]
    node.cluster.run([f"{BIN}/ray", "stop", *flags], check=False)
    for number, victim in enumerate(victims):
        # A worker may exit before its raylet ends it, when it notices that its owner has ended with
        # the raylet.
        killers = ["ray-intended"] if number == 0 else ["ray-intended", "ray-collapse"]
        node.truth.death(f"{node.label}/{number}", victim, killers)
    node.ended(victims)


@kind
def ray_stop(node):
    stopped(node)


@kind
def ray_stop_force(node):
    stopped(node, "--force")


# This init reaps zombies. Otherwise `ray stop` would wait for them as if they were alive.
INIT = ("bash", "-c", "while :; do sleep 600 & wait $!; done")
PID_NAMESPACE = {"ray_stop", "ray_stop_force"}
BLOCK = {"gcs_killed_under_block"}
# How long the raylet and other processes try to reach a GCS that is gone. The default is one
# minute, in which a driver keeps a core busy.
SETTINGS = {"RAY_gcs_rpc_server_reconnect_timeout_s": "10"}


def stage(truth, name, number, user):
    label = f"{name}/{number}"
    try:
        with Cluster(name, user, pid_namespace=name in PID_NAMESPACE, settings=SETTINGS, init=INIT) as cluster:
            cluster.start(cpus=3, block=name in BLOCK)
            truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
            node = Node(cluster, truth, label)
            KINDS[name](node)
            time.sleep(1)
            truth.write(kind="done", label=label)
            # The test itself ends all processes that are left.
    except Exception:  # noqa: BLE001 - one kind that cannot be staged does not stop the others
        truth.failed(label, traceback.format_exc())


def run(truth, arguments):
    names = arguments.only or list(KINDS)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number in range(arguments.repeat):
            for name in names:
                pool.submit(stage, truth, name, number, arguments.user)
        try:
            pool.shutdown()
        except BaseException:
            # If interrupted, start no other cluster.
            pool.shutdown(cancel_futures=True)
            raise
