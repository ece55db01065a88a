"""A Ray cluster of four nodes on one machine, and deaths whose causes lie on other nodes.

    python fleet.py --truth FILE

Each node has namespaces of its own (network, pid, mount), an address of its own on a bridge, and a session folder that no other
node sees. Prints `ready`, waits for a line, stages, prints `staged`, and waits for the end of its input.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time

import kill
from cgroup import Cgroup
from cluster import BIN, HERE, RAYLET, Cluster, hold_programs_outside
from nodes import INIT
from truth import Roll, Truth, wait_gone

NODES = 4
PORT = 6379
SUBNET = "10.231.7"
# What an actor may allocate beyond what it has when it is moved to the small cgroup.
SMALL = 48 << 20
# A node that does not answer is declared dead after three seconds.
SETTINGS = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
PROVEN = {"certainty": "proven"}


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Network:
    """A bridge in a network namespace of its own, and one more namespace a node."""

    def __init__(self):
        self.name = f"rt{os.getpid()}"
        self.made = []

    def __enter__(self):
        self._namespace(self.name)
        ip("-n", self.name, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.name, "link", "set", "bridge", "up")
        return self

    def _namespace(self, name):
        ip("netns", "add", name)
        self.made.append(name)
        ip("-n", name, "link", "set", "lo", "up")

    def node(self, number):
        """The namespace of a node with its address."""
        name = f"{self.name}n{number}"
        self._namespace(name)
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", self.name)
        ip("-n", name, "addr", "add", f"{address(number)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        # Ray finds its own address by the way to one outside.
        ip("-n", name, "route", "add", "default", "dev", "eth0")
        ip("-n", self.name, "link", "set", f"port{number}", "master", "bridge", "up")
        return name

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def address(number):
    return f"{SUBNET}.{number}"


def start(node, number, temp_dir):
    """Ray on one node; number 1 is the head."""
    node.run(["mount", "-t", "tmpfs", "none", temp_dir])
    flags = {
        "node-ip-address": address(number),
        "node-name": f"node{number}",
        "num-cpus": 2,
        "object-store-memory": 80 << 20,
        "resources": f'{{"node{number}": 100}}',
        "min-worker-port": 0,
        "max-worker-port": 0,
    }
    if number == 1:
        first = {"port": PORT, "include-dashboard": "false", "temp-dir": temp_dir}
        where = ["--head", *(f"--{name}={value}" for name, value in first.items())]
    else:
        where = [f"--address={address(1)}:{PORT}"]
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    node.run([f"{BIN}/ray", "start", "--disable-usage-stats", *where, *arguments])
    node.raylet = node.one(*RAYLET)
    node.address = f"{address(1)}:{PORT}"
    node.number = number


class Stage:
    """A driver on node 1, and what it started where."""

    def __init__(self, nodes, truth, name, folder):
        self.nodes, self.truth, self.name = nodes, truth, name
        self.roll = Roll(f"{folder}/{name}")
        inside = nodes[0].python("fleet_job.py", name, self.roll.folder, stdout=subprocess.DEVNULL, stderr=self._log(folder))
        self.program = inside
        self.driver = self.wait("driver", 1)

    def _log(self, folder):
        return open(f"{folder}/{self.name}.err", "w")

    def wait(self, label, number):
        """Who announced itself on this node, as the machine sees it."""
        return self.nodes[number - 1].outside(self.roll.wait(label))

    def label(self, name):
        return f"{self.name}/{name}"

    def death(self, name, number, victim, killer, **expected):
        self.truth.death(self.label(name), victim, killer, node=f"node{number}", **expected)

    def job(self, outcome, cause=None):
        cause = cause and self.label(cause)
        self.truth.write(kind="job", driver=self.driver, outcome=outcome, cause=cause)

    def ended(self, *victims):
        for victim in victims:
            if not wait_gone(victim):
                self.truth.failed(self.name, f"pid {victim['pid']} was still alive")

    def tell(self, word):
        self.roll.announce(word)


def actor_out_of_memory(stage):
    """The kernel kills an actor on node 3 at a small limit; its driver on node 1 fails by that."""
    victim = stage.wait("actor", 3)
    small = Cgroup(f"{stage.nodes[2].small.path}/actor", SMALL)
    small.add(victim["pid"])
    stage.death("actor", 3, victim, "kernel-oom-memcg", signal=9, sender=None, limit_bytes=SMALL, **PROVEN)
    stage.death("driver", 1, stage.driver, "exit", exit_code=1, cause=stage.label("actor"), **PROVEN)
    stage.job("failed", "actor")
    stage.tell("eat")
    stage.ended(victim, stage.driver)


def owner_killed(stage):
    """An owner on node 2 is killed by a user; its actors and its task on nodes 3 and 4 are ended by Ray."""
    owner = stage.wait("owner", 2)
    children = [(number, kind, stage.wait(f"{kind}{number}", number)) for number in (3, 4) for kind in ("actor", "task")]
    # What Ray's logs and the recorders need to know everybody.
    time.sleep(2)
    sender = kill.by_shell(owner, 9)
    stage.death("owner", 2, owner, "signal", signal=9, sender=sender, **PROVEN)
    for number, kind, child in children:
        stage.death(f"{kind}{number}", number, child, "ray-collapse", cause=stage.label("owner"))
    stage.ended(owner, *(child for _, _, child in children))
    stage.job("succeeded")
    stage.tell("go")
    stage.ended(stage.driver)


def raylet_killed(stage):
    """The raylet of node 4 is killed; the GCS declares the node dead, and the driver on node 1 fails by that."""
    actor = stage.wait("actor", 4)
    raylet = stage.nodes[3].raylet
    time.sleep(2)
    sender = kill.by_shell(raylet, 9)
    stage.death("raylet", 4, raylet, "signal", signal=9, sender=sender, **PROVEN)
    stage.death("actor", 4, actor, "ray-collapse", cause=stage.label("raylet"))
    stage.death("driver", 1, stage.driver, "exit", exit_code=1, cause=stage.label("raylet"), **PROVEN)
    stage.job("failed", "raylet")
    stage.ended(raylet, actor, stage.driver)


STAGES = [actor_out_of_memory, owner_killed, raylet_killed]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--keep-logs", help="copy each node's session folder below this one")
    arguments = parser.parse_args()
    truth = Truth(os.path.abspath(arguments.truth))
    hold_programs_outside()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp"))
        temp_dir = f"{folder}/ray"
        os.mkdir(temp_dir)
        network = stack.enter_context(Network())
        nodes = []
        for number in range(1, NODES + 1):
            settings = {**SETTINGS, "RAYTRACE_STAGE": folder}
            node = Cluster(f"fleet{number}", pid_namespace=True, settings=settings, init=INIT, network=network.node(number))
            nodes.append(stack.enter_context(node))
            start(node, number, temp_dir)
        session = os.path.basename(os.readlink(f"/proc/{nodes[0].raylet['pid']}/root{temp_dir}/session_latest"))
        for node in nodes:
            truth.write(kind="cluster", session=session, raylet=node.raylet)
        print("ready", flush=True)
        sys.stdin.readline()
        # One after the other: each needs the nodes that the last one ends.
        for stage in STAGES:
            stage(Stage(nodes, truth, stage.__name__, folder))
        # The GCS's last words on the node.
        time.sleep(2)
        if arguments.keep_logs:
            for node in nodes:
                source = f"/proc/{node.init['pid']}/root{temp_dir}/{session}/logs"
                target = f"{arguments.keep_logs}/node{node.number}/{session}"
                os.makedirs(target)
                subprocess.run(["cp", "-r", source, target], check=False)
            subprocess.run(f"cp {folder}/*.err {arguments.keep_logs}/", shell=True, check=False)
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
