"""Stages deaths with causes on other nodes, on a cluster of four nodes on one machine.

    python fleet.py --truth FILE [--only STAGE ...]

Each node has its own namespaces (network, pid, mount), its own address on a bridge, and a session
folder that no other node sees. Prints `ready`, waits for a line, stages, prints `staged`,
and waits for the end of its input.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time

from cluster import BIN, RAYLET, Cluster, hold_programs_outside
from fleet_stages import STAGES, Stage
from nodes import INIT
from truth import Truth, command_line

NODES = 4
PORT = 6379
# Each cluster has its own subnet. Two clusters on one machine must not have one GCS address.
SUBNET = f"10.231.{os.getpid() % 250 + 1}"
# A node that does not answer is declared dead after three seconds.
SETTINGS = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    # A node that has lost the GCS gives up after ten seconds instead of one minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
# The stages that run by default.
FIRST = ["actor_out_of_memory", "owner_killed", "raylet_killed"]


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Network:
    """A bridge in its own network namespace, and one more namespace for each node."""

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
        """Makes the namespace of a node with its address."""
        name = f"{self.name}n{number}"
        self._namespace(name)
        ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", self.name)
        ip("-n", name, "addr", "add", f"{address(number)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        # Ray derives its own address from the route to an external address.
        ip("-n", name, "route", "add", "default", "dev", "eth0")
        ip("-n", self.name, "link", "set", f"port{number}", "master", "bridge", "up")
        return name

    def link(self, number, state):
        """Disconnects a node (`down`), or connects it again (`up`)."""
        ip("-n", self.name, "link", "set", f"port{number}", state)

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def address(number):
    return f"{SUBNET}.{number}"


def start(node, number, temp_dir):
    """Starts Ray on one node. Number 1 is the head."""
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
    flag = next(flag for flag in command_line(node.raylet["pid"]).split() if flag.startswith("--node_id="))
    node.node_id = flag.partition("=")[2]


class Fleet:
    """The nodes, their network, and the truth.

    Drivers and actors announce themselves in `folder`.
    """

    def __init__(self, network, truth, folder):
        self.network, self.truth, self.folder = network, truth, folder
        self.nodes = []

    def session(self, temp_dir):
        return os.path.basename(os.readlink(f"/proc/{self.nodes[0].raylet['pid']}/root{temp_dir}/session_latest"))


def keep_logs(fleet, temp_dir, session, target):
    """Copies the logs of each node that is still up, and the error output of the drivers."""
    for node in fleet.nodes:
        source = f"/proc/{node.init['pid']}/root{temp_dir}/{session}/logs"
        if os.path.isdir(source):
            kept = f"{target}/node{node.number}/{session}"
            os.makedirs(kept)
            subprocess.run(["cp", "-r", source, kept], check=False)
    subprocess.run(f"cp {fleet.folder}/*.err {target}/", shell=True, check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--only", nargs="+", choices=STAGES, default=FIRST, help="what is staged, one after the other")
    parser.add_argument("--keep-logs", help="copy the logs of each node to this folder")
    arguments = parser.parse_args()
    truth = Truth(os.path.abspath(arguments.truth))
    hold_programs_outside()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp"))
        temp_dir = f"{folder}/ray"
        os.mkdir(temp_dir)
        fleet = Fleet(stack.enter_context(Network()), truth, folder)
        for number in range(1, NODES + 1):
            settings = {**SETTINGS, "RAYTRACE_STAGE": folder}
            network = fleet.network.node(number)
            node = Cluster(f"fleet{number}", pid_namespace=True, settings=settings, init=INIT, network=network)
            fleet.nodes.append(stack.enter_context(node))
            start(node, number, temp_dir)
        session = fleet.session(temp_dir)
        for node in fleet.nodes:
            truth.write(kind="cluster", session=session, raylet=node.raylet)
        print("ready", flush=True)
        sys.stdin.readline()
        # The stages use the same nodes, so they run one after the other.
        for name in arguments.only:
            STAGES[name](Stage(fleet, name))
        # Leave time for the GCS's last log lines about the node.
        time.sleep(2)
        if arguments.keep_logs:
            keep_logs(fleet, temp_dir, session, arguments.keep_logs)
        print("staged", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
