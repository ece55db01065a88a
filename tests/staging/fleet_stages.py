"""The stages that fleet.py runs on its four nodes.

Each function of STAGES has one or two drivers on node 1.
"""

import subprocess
import time

import kill
from cgroup import Cgroup
from cluster import BIN
from truth import Roll, command_line, gone, wait_gone

# How much an actor may allocate after it was moved to the small cgroup.
SMALL = 48 << 20
# The programs of a node's agents, which have no process titles up to Ray 2.51.
AGENTS = ("ray/dashboard/agent.py", "ray/_private/runtime_env/agent/main.py")
PROVEN = {"certainty": "proven"}
STAGES = {}
# Seconds for which a disconnected node keeps running after its job has failed. No process may die
# there in this time.
CUT_OFF_SECONDS = 10


def stage(function):
    STAGES[function.__name__] = function
    return function


class Stage:
    """A driver on node 1, and the processes that it started on the nodes."""

    def __init__(self, fleet, name):
        self.fleet, self.nodes, self.truth, self.name = fleet, fleet.nodes, fleet.truth, name
        self.roll = Roll(f"{fleet.folder}/{name}")
        log = open(f"{fleet.folder}/{name}.err", "w")
        self.program = self.node(1).python("fleet_job.py", name, self.roll.folder, stdout=subprocess.DEVNULL, stderr=log)
        self.driver = self.wait("driver", 1)

    def beside(self, name):
        """Starts a second job at the same time."""
        return Stage(self.fleet, name)

    def node(self, number):
        return self.nodes[number - 1]

    def wait(self, label, number):
        """Waits for a process on this node to announce itself. Returns it with its pid outside."""
        return self.node(number).outside(self.roll.wait(label))

    def label(self, name):
        return f"{self.name}/{name}"

    def death(self, name, number, victim, killer, **expected):
        self.truth.death(self.label(name), victim, killer, node=f"node{number}", **expected)

    def killed(self, name, number, victim):
        """Kills the victim with a shell's `kill`, as a user does."""
        sender = kill.by_shell(victim, 9)
        self.death(name, number, victim, "signal", signal=9, sender=sender, **PROVEN)

    def out_of_memory(self, name, number, victim):
        """Gives the victim its own small limit, and tells it to allocate memory."""
        small = Cgroup(f"{self.node(number).small.path}/{self.name}", SMALL)
        small.add(victim["pid"])
        self.death(name, number, victim, "kernel-oom-memcg", signal=9, sender=None, limit_bytes=SMALL, **PROVEN)
        self.tell("eat")

    def job(self, outcome, cause=None):
        cause = cause and self.label(cause)
        self.truth.write(kind="job", driver=self.driver, outcome=outcome, cause=cause)

    def ended(self, *victims):
        for victim in victims:
            if not wait_gone(victim):
                self.truth.failed(self.name, f"pid {victim['pid']} was still alive")

    def tell(self, word):
        self.roll.announce(word)


@stage
def actor_out_of_memory(stage):
    """The kernel kills an actor on node 3 at a small limit. Its driver on node 1 fails then."""
    victim = stage.wait("actor", 3)
    stage.death("driver", 1, stage.driver, "exit", exit_code=1, cause=stage.label("actor"), **PROVEN)
    stage.job("failed", "actor")
    stage.out_of_memory("actor", 3, victim)
    stage.ended(victim, stage.driver)


@stage
def owner_killed(stage):
    """A user kills an owner on node 2. Ray ends its actors and tasks on nodes 3 and 4."""
    owner = stage.wait("owner", 2)
    children = [(number, kind, stage.wait(f"{kind}{number}", number)) for number in (3, 4) for kind in ("actor", "task")]
    # Leave time for Ray's logs and the recorders to learn of every process.
    time.sleep(2)
    stage.killed("owner", 2, owner)
    for number, kind, child in children:
        stage.death(f"{kind}{number}", number, child, "ray-collapse", cause=stage.label("owner"))
    stage.ended(owner, *(child for _, _, child in children))
    stage.job("succeeded")
    stage.tell("go")
    stage.ended(stage.driver)


@stage
def raylet_killed(stage):
    """The raylet of node 4 is killed.

    The GCS declares the node dead, which makes the driver on node 1 fail.
    """
    actor = stage.wait("actor", 4)
    raylet = stage.node(4).raylet
    time.sleep(2)
    stage.killed("raylet", 4, raylet)
    stage.death("actor", 4, actor, "ray-collapse", cause=stage.label("raylet"))
    stage.death("driver", 1, stage.driver, "exit", exit_code=1, cause=stage.label("raylet"), **PROVEN)
    stage.job("failed", "raylet")
    stage.ended(raylet, actor, stage.driver)


@stage
def two_jobs(stage):
    """Two jobs run at the same time on nodes 2 and 3.

    The first one fails because the kernel kills its actor. The second one finishes.
    """
    second = stage.beside("second_job")
    victim = stage.wait("actor", 3)
    others = [(number, second.wait(f"actor{number}", number)) for number in (2, 3)]
    stage.death("driver", 1, stage.driver, "exit", exit_code=1, cause=stage.label("actor"), **PROVEN)
    stage.job("failed", "actor")
    stage.out_of_memory("actor", 3, victim)
    stage.ended(victim, stage.driver)
    for number, other in others:
        if gone(other):
            stage.truth.failed(second.name, f"its actor on node {number} has not outlived the other job")
        second.death(f"actor{number}", number, other, "ray-intended")
    second.job("succeeded")
    second.tell("go")
    second.ended(second.driver, *(other for _, other in others))


def drain(stage, number, reason):
    """Tells the GCS to drain a node. The processes that end there then end intentionally."""
    node = stage.node(number)
    for name, victim in parts(node):
        stage.death(name, number, victim, "ray-intended")
    request = {"address": node.address, "node-id": node.node_id, "reason": f"DRAIN_NODE_REASON_{reason}", "reason-message": "staged"}
    if reason == "PREEMPTION":
        request["deadline-remaining-seconds"] = 600
    stage.node(1).run([f"{BIN}/ray", "drain-node", *(f"--{name}={value}" for name, value in request.items())])


def parts(node):
    """Returns a node's raylet, agents and workers, each with a label."""
    named = [("raylet", node.raylet)]
    for who, _ in node.members().values():
        words = command_line(who["pid"]).split()
        titles = [word for word in words[:1] if word.startswith("ray::")]
        titles += [word for word in words[1:4] if word.endswith(AGENTS)]
        if titles:
            named.append((f"{titles[0]}-{who['pid']}", who))
    return named


def falls(stage, number, cause, **expected):
    """Records which processes of a node end because of its raylet, and the cause. Returns them.

    Idle workers are left out, because Ray may end them at any time.
    """
    followers = [(name, victim) for name, victim in parts(stage.node(number))[1:] if not name.startswith("ray::IDLE")]
    for name, victim in followers:
        stage.death(name, number, victim, "ray-collapse", cause=cause, **expected)
    return [victim for _, victim in followers]


@stage
def node_drained(stage):
    """Node 2 is drained as before a preemption.

    Its raylet exits when the last actor there and its job have finished.
    """
    stage.wait("actor2", 2)
    time.sleep(2)
    drain(stage, 2, "PREEMPTION")
    stage.job("succeeded")
    stage.tell("go")
    stage.ended(stage.driver, stage.node(2).raylet)


@stage
def idle_node_drained(stage):
    """Node 3 is idle. It is drained as the autoscaler does it."""
    drain(stage, 3, "IDLE_TERMINATION")
    stage.ended(stage.node(3).raylet)
    stage.job("succeeded")
    stage.tell("go")
    stage.ended(stage.driver)


@stage
def node_cut_off(stage):
    """Node 4 loses its network. The GCS declares it dead, which makes a driver fail.

    The node's processes survive. They end when the network is back and they learn that the node was
    declared dead.
    """
    actor, raylet = stage.wait("actor", 4), stage.node(4).raylet
    time.sleep(2)
    # No death is the cause: the actor outlives its driver.
    stage.death("driver", 1, stage.driver, "exit", exit_code=1, remote="declared dead while", uncaused=True, **PROVEN)
    stage.job("failed", "driver")
    stage.fleet.network.link(4, "down")
    stage.ended(stage.driver)
    time.sleep(CUT_OFF_SECONDS)
    if gone(raylet) or gone(actor):
        stage.truth.failed(stage.name, "node 4 did not outlive its being declared dead")
    back = time.time()
    stage.death("raylet", 4, raylet, "ray-collapse", not_before=back, uncaused=True)
    followers = falls(stage, 4, stage.label("raylet"), not_before=back)
    stage.fleet.network.link(4, "up")
    stage.ended(raylet, *followers)


def follow_the_gcs(stage, cause):
    """Records that the remaining raylets of nodes 2 to 4 end because the GCS is gone.

    Their agents and workers end too. Returns all these processes.
    """
    victims = []
    for node in stage.nodes[1:]:
        if not gone(node.raylet):
            stage.death(f"raylet{node.number}", node.number, node.raylet, "ray-collapse", cause=cause)
            victims += [node.raylet, *falls(stage, node.number, cause)]
    return victims


@stage
def gcs_killed(stage):
    """The GCS is killed. As a consequence, all raylets end, and the driver too.

    This includes the raylet of the GCS's own node.
    """
    stage.wait("actor", 2)
    time.sleep(2)
    gcs, raylet = stage.node(1).one("gcs/gcs_server"), stage.node(1).raylet
    cause = stage.label("gcs")
    victims = [*follow_the_gcs(stage, cause), *falls(stage, 1, cause)]
    stage.death("raylet", 1, raylet, "ray-collapse", cause=cause)
    stage.death("driver", 1, stage.driver, ["exit", "ray-collapse"], cause=cause)
    stage.job("failed", "gcs")
    stage.killed("gcs", 1, gcs)
    stage.ended(raylet, stage.driver, *victims)


@stage
def head_gone(stage):
    """The init of node 1 is killed, and the kernel kills all other processes there.

    As a consequence, all other raylets end.
    """
    actor = stage.wait("actor", 3)
    time.sleep(2)
    head = stage.node(1)
    cause = stage.label("init")
    victims = follow_the_gcs(stage, cause)
    expected = {"signal": 9, "mechanism": "pid-namespace-exit", "cause": cause, **PROVEN}
    for name, victim in {"raylet": head.raylet, "gcs": head.one("gcs/gcs_server"), "driver": stage.driver}.items():
        stage.death(name, 1, victim, "kernel-other", **expected)
    stage.job("failed", "init")
    stage.killed("init", 1, head.init)
    stage.ended(head.raylet, stage.driver, actor, *victims)
