"""Stages two Ray nodes in containers of one machine, with the same pids inside.

    python containers.py --truth FILE

The kernel kills one container's init at a memory limit. Then the container's root is gone.
"""

import argparse
import os
import signal
import sys
import time

from cgroup import Cgroup
from cluster import Cluster
from nodes import PROVEN, Node
from truth import Truth, wait_for, wait_gone

# The init of a container. It allocates memory without end after SIGUSR1.
INIT = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.sigwait([signal.SIGUSR1])
kept = []
while True:
    kept.append(bytearray(1 << 20))
"""
LIMIT = 32 << 20


def container(name):
    return Cluster(name, pid_namespace=True, init=[sys.executable, "-c", INIT])


def start(cluster, truth, label):
    """Starts Ray with its session on a file system that only the container sees.

    The file system ends with the container.
    """
    folder = f"{cluster.folder}/ray"
    os.mkdir(folder)
    cluster.run(["mount", "-t", "tmpfs", "none", folder])
    cluster.start(cpus=2, temp_dir=folder)
    latest = f"/proc/{cluster.raylet['pid']}/root{folder}/session_latest"
    truth.write(kind="cluster", session=os.path.basename(os.readlink(latest)), raylet=cluster.raylet)
    node = Node(cluster, truth, label)
    node.inside = node.workers
    node.workers = [wait_for(lambda one=one: cluster.outside(one)) for one in node.inside]
    return node


def kill_worker(node, number):
    """Kills a worker. The raylet's log has the pid that the worker has in the container."""
    node.killed(f"worker{number}", node.workers[number])
    node.ended([node.workers[number]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    truth = Truth(os.path.abspath(parser.parse_args().truth))
    with container("one") as one, container("two") as two:
        first, second = start(one, truth, "one"), start(two, truth, "two")
        # This makes the driver fail, which ends the other workers.
        for node in (first, second):
            kill_worker(node, 0)
        # The raylet logs this within a tenth of a second.
        time.sleep(1)
        truth.death("one/init", one.init, "kernel-oom-memcg", signal=9, sender=None, limit_bytes=LIMIT, **PROVEN)
        expected = {"signal": 9, "mechanism": "pid-namespace-exit", "cause": "one/init", **PROVEN}
        truth.death("one/raylet", one.raylet, "kernel-other", **expected)
        Cgroup(f"{one.small.path}/init", LIMIT).add(one.init["pid"])
        os.kill(one.init["pid"], signal.SIGUSR1)
        if not wait_gone(one.init):
            truth.failed("one/init", "it was not killed at its limit")
        first.ended([one.raylet])
        time.sleep(1)


if __name__ == "__main__":
    main()
