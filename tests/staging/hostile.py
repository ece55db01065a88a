"""Stages kills that are disguised as others, on private clusters.

    hostile.py --truth FILE --recorder PID

The truth file says what each of them really was.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys

import ray

from cluster import Cluster, free_ports
from truth import PATIENCE, Roll, Truth, comm, command_line, process, wait_for, wait_gone

# Every Python process that finds this file runs it. Here that is the real `ray stop`.
SITECUSTOMIZE = """
import os, signal, sys
if sys.orig_argv[-1] == "stop":
    os.kill({victim}, signal.SIGKILL)
    os._exit(0)
"""


RAY = os.path.join(os.path.dirname(sys.executable), "ray")
# Users that no other process has: the cluster's user, and one with the right to kill the processes
# of the first.
OWNER, OTHER = 12_345, 12_346


def under_ray_stop(truth, cluster, label, victim, ray, certainty):
    """Kills a worker from a file that the real `ray stop` loads. `ray stop` itself does nothing."""
    folder = os.path.join(cluster.folder, label.replace("/", "-"))
    os.makedirs(folder)
    with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
        file.write(SITECUSTOMIZE.format(victim=victim["pid"]))
    environment = {**cluster.environment, "PYTHONPATH": folder}
    # If `ray stop` does not find the file, it ends every Ray process on the machine.
    found = cluster.run([sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"], env=environment)
    if not found.startswith(folder):
        truth.failed(label, f"Python takes {found.strip()}, not the file in {folder}")
        return
    tool = cluster.popen([ray, "stop"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tool.wait(timeout=PATIENCE)
    # The sender is as certain as its path. That `ray stop` intended the kill is only inferred.
    truth.death(
        label, victim, ["ray-intended"] if ray != RAY else ["ray-intended", "signal"], certainty=certainty,
        reason_certainty="inferred", sender={"comm": "ray", "mechanism": "kill"},
    )
    if not wait_gone(victim):
        truth.failed(label, "it lives on")


def link(cluster):
    """Makes `~/bin/ray`, a link to the installed `ray`, and returns its path."""
    folder = os.path.join(cluster.folder, "bin")
    os.makedirs(folder)
    path = os.path.join(folder, "ray")
    os.symlink(RAY, path)
    return path


# A driver as a user starts it in a shell. It runs until it is killed.
DRIVER = """
import sys, time, ray
from truth import Roll
ray.init(log_to_driver=False, logging_level="ERROR")
Roll(sys.argv[1]).announce(sys.argv[2])
time.sleep(600)
"""


# A shell script that runs under any program name. It reads a pid from its input and kills it.
KILLS = "read victim; kill -9 $victim; exit 0"


def program(cluster, name):
    """Makes a copy of bash with this name, and returns its path."""
    path = os.path.join(cluster.folder, "forged", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        shutil.copy("/bin/bash", path)
    return path


def names_session(cluster):
    """Returns the arguments of a raylet of this cluster's session."""
    session = os.path.join(cluster.folder, cluster.session())
    return [
        f"--raylet_socket_name={session}/sockets/raylet", f"--session_dir={session}", f"--log_dir={session}/logs",
        f"--session-name={cluster.session()}",
    ]


def holds(recorder, path):
    """Returns how often the recorder has this file or folder open."""
    found = 0
    for number in os.listdir(f"/proc/{recorder}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/{recorder}/fd/{number}") == path
    return found


def wait_held(recorder, path, times=1):
    if not wait_for(lambda: holds(recorder, path) >= times, PATIENCE):
        raise TimeoutError(f"the recorder does not look at {path}")


def raylet_of_this_session(truth, cluster, roll, label, recorder):
    """Kills a driver from a program that is called `raylet` and names this cluster's session.

    Ray's own raylet kills no driver.
    """
    logs = os.path.join(cluster.folder, cluster.session(), "logs")
    raylet = cluster.popen(
        [program(cluster, "raylet"), "-c", KILLS, "--", *names_session(cluster)], stdin=subprocess.PIPE, text=True
    )
    environment = {**cluster.environment, "RAY_ADDRESS": cluster.address}
    driver = cluster.popen([sys.executable, "-c", DRIVER, roll.folder, label], env=environment)
    victim = roll.wait(label)
    # The recorder finds the driver by its log, in the folder that both raylets name. It has that
    # folder open once for each of them.
    wait_held(recorder, logs, times=2)
    wait_held(recorder, driver_log(logs, victim["pid"]))
    truth.death(
        label, victim, "signal", certainty="proven", listed=True, signal=9,
        sender={"pid": raylet.pid, "comm": "raylet", "mechanism": "kill", "relation": "other"},
    )
    raylet.communicate(f"{victim['pid']}\n")
    driver.wait(timeout=PATIENCE)
    if not wait_gone(victim):
        truth.failed(label, "it lives on")


def driver_log(logs, pid):
    """Waits for the log of the driver with this pid, and returns its path."""
    ending = f"_{pid}.log"
    mine = lambda name: name.startswith("python-core-driver-") and name.endswith(ending)  # noqa: E731
    found = wait_for(lambda: [name for name in os.listdir(logs) if mine(name)], PATIENCE)
    if not found:
        raise TimeoutError(f"pid {pid} has no log in {logs}")
    return os.path.join(logs, found[0])


class Forged:
    """A process that looks like a part of a cluster, and may kill the cluster's processes.

    By default it belongs to another user than the cluster.
    """

    def __init__(self, cluster, label, name, arguments, user=OTHER, before=None):
        self.label = label
        path = program(cluster, name)
        rights = ["--inh-caps=+kill", "--ambient-caps=+kill"] if user != OWNER else []
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *rights, "--"]
        self.child = subprocess.Popen(
            [*drop, path, "-c", KILLS, *arguments], stdin=subprocess.PIPE, text=True, preexec_fn=before, close_fds=False
        )
        # Until then, the process runs another program.
        if not wait_for(lambda: comm(self.child.pid) == name, PATIENCE):
            raise TimeoutError(f"{label}: pid {self.child.pid} did not become {name}")
        self.who = process(self.child.pid)

    def kill(self, truth, victim, **expected):
        sender = {"pid": self.child.pid, "comm": comm(self.child.pid), "mechanism": "kill", **expected}
        truth.death(self.label, victim, "signal", certainty="proven", listed=True, signal=9, sender=sender)
        self.child.communicate(f"{victim['pid']}\n")
        if not wait_gone(victim):
            truth.failed(self.label, "it lives on")


def make_log(logs, owner):
    """Makes the log of a driver with the pid of this process, and keeps it open.

    The child calls this before exec.
    """
    name = f"python-core-driver-01000000{'f' * 48}_{os.getpid()}.log"
    log = os.open(os.path.join(logs, name), os.O_CREAT | os.O_WRONLY, 0o644)
    os.fchown(log, owner, owner)
    os.set_inheritable(log, True)


def of_another_user_or_age(truth, recorder):
    """Stages processes that name a cluster and cannot belong to it.

    They belong to another user than its raylet, or are older than the raylet.
    """
    port = free_ports(1)[0]
    # One of these addresses is in the raylet's command line.
    addresses = {f"--gcs-address={ip}:{port}" for ip in ("127.0.0.1", ray.util.get_node_ip_address())}
    worker = ["/x/ray/_private/workers/default_worker.py", *addresses]
    # Python may be in a folder that only root can read.
    with Cluster("others", user=OWNER, rights="dac_read_search") as cluster:
        os.chmod(cluster.folder, 0o755)
        older = Forged(cluster, "older/0", "python3.11", worker, user=OWNER)
        cluster.start(port=port)
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        if not addresses & set(command_line(cluster.raylet["pid"]).split()):
            truth.failed("older/0", f"{addresses} are not its GCS")
        logs = os.path.join(cluster.folder, cluster.session(), "logs")
        wait_held(recorder, logs)
        others = Forged(cluster, "user/worker", "python3.11", worker)
        raylet = Forged(cluster, "user/raylet", "raylet", ["--", *names_session(cluster)])
        # Ray lets every user of a machine write to this folder.
        driver = Forged(cluster, "user/driver", "python3.11", [], before=lambda: make_log(logs, OTHER))
        wait_held(recorder, driver_log(logs, driver.child.pid))
        wait_held(recorder, logs, times=2)
        job = cluster.python("late_job.py", "4", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        victims = [who for who, _ids in json.loads(next(line for line in job.stdout if line.startswith("[[")))]
        # When there is a new driver, the recorder looks at every new process.
        wait_held(recorder, driver_log(logs, job.pid))
        for stranger in (older, others):
            truth.stranger(stranger.label, stranger.who)
            stranger.kill(truth, victims.pop(), relation="other")
        raylet.kill(truth, victims.pop(), relation="other")
        driver.kill(truth, victims.pop())
        job.stdin.close()
        if job.wait(timeout=PATIENCE) != 0:
            truth.failed("job", f"the driver ended with {job.returncode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    parser.add_argument("--recorder", type=int, required=True)
    arguments = parser.parse_args()
    truth = Truth(os.path.abspath(arguments.truth))
    of_another_user_or_age(truth, arguments.recorder)
    with Cluster("hostile") as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        roll = Roll(os.path.join(cluster.folder, "roll"))
        command = ["hostile_job.py", "--truth", truth.path, "--roll", roll.folder]
        driver = cluster.python(*command, "--raylet", str(cluster.raylet["pid"]), stdin=subprocess.PIPE)
        under_ray_stop(truth, cluster, "site/0", roll.wait("site/0"), RAY, "proven")
        # raytrace resolves the link after the kill. Its owner may have changed the target by then.
        under_ray_stop(truth, cluster, "link/0", roll.wait("link/0"), link(cluster), "inferred")
        raylet_of_this_session(truth, cluster, roll, "session/0", arguments.recorder)
        driver.stdin.close()
        if driver.wait(timeout=PATIENCE) != 0:
            truth.failed("driver", f"the driver ended with {driver.returncode}")


if __name__ == "__main__":
    main()
