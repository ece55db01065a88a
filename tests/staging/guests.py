"""Stages one Ray cluster on two virtual machines, each with its own kernel and clock.

This script is the init of both machines, and the drivers:

    guests.py guest1     the head
    guests.py guest2     a worker node
    guests.py KIND       a driver, on the head

The kernel of guest 2 kills an actor at a cgroup's limit, which ends its driver on guest 1. Then an
owner on guest 1 is killed, whose actor is on guest 2. The second serial port gets the results.
`clock` says by how many nanoseconds guest 2's clock is ahead. It has a lower and an upper bound,
from messages that this script sends before and after the deaths.
"""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from guest import FILE, LOG, TRUTH, Recorder, boot, end, join_network, raylet_pid, read, section, start_ray, write
from truth import Truth, process, wait_for, wait_gone

MIB = 1 << 20
ADDRESSES = {"guest1": "10.0.2.1", "guest2": "10.0.2.2"}
GCS = f"{ADDRESSES['guest1']}:6379"
PORT = 7000
# How much the actor may allocate after it has joined the small cgroup.
ROOM = 48 * MIB
PATIENCE = 1200
PROVEN = {"certainty": "proven"}


def booted():
    """Returns when this machine booted, by its own clock."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def who(pid=None):
    return {**process(pid or os.getpid()), "booted": booted()}


def as_here(someone):
    """Converts the start of the other machine's process to ticks since this machine's boot."""
    ticks = someone["start_ticks"] + round((someone["booted"] - booted()) * 100)
    return {"pid": someone["pid"], "start_ticks": ticks}


def answer(connection, told):
    """Answers on guest 2 with its time, or with whether a process there has ended.

    If guest 1 announces an event, this sets it.
    """
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            word, *about = json.loads(line)
            if word in told:
                told[word].set()
            reply = wait_gone(*about) if word == "gone" else time.time_ns()
            lines.write(f"{json.dumps(reply)}\n")
            lines.flush()


def serve(told):
    with socket.create_server(("", PORT)) as server:
        while True:
            threading.Thread(target=answer, args=(server.accept()[0], told), daemon=True).start()


class Other:
    """The connection from guest 1 to guest 2."""

    def __init__(self):
        def connected():
            try:
                return socket.create_connection((ADDRESSES["guest2"], PORT), timeout=PATIENCE)
            except OSError:
                return None

        self.lines = wait_for(connected, PATIENCE, interval=1).makefile("rw")

    def ask(self, *words):
        self.lines.write(f"{json.dumps(words)}\n")
        self.lines.flush()
        return json.loads(self.lines.readline())

    def ahead(self):
        """Returns the least and the most nanoseconds by which guest 2's clock may be ahead.

        Guest 2 answered after it was asked, and before its answer arrived.
        """
        least, most = -(1 << 62), 1 << 62
        for _ in range(200):
            asked = time.time_ns()
            there = self.ask("time")
            heard = time.time_ns()
            least, most = max(least, there - heard), min(most, there - asked)
        return [least, most]


def driver(kind):
    import ray

    truth, other = Truth(TRUTH), Other()
    ray.init(address=GCS, log_to_driver=False)
    mine = process(os.getpid())

    @ray.remote(num_cpus=0, resources={"guest2": 1}, max_restarts=0)
    class Trainer:
        def who(self):
            return who()

        def enter_a_small_cgroup(self):
            small = "/sys/fs/cgroup/small"
            os.makedirs(small)
            write(f"{small}/memory.max", str(ROOM))
            write(f"{small}/cgroup.procs", str(os.getpid()))

        def eat(self):
            kept = []
            while True:
                kept.append(bytearray(os.urandom(1) * MIB))

    @ray.remote(num_cpus=0, resources={"guest1": 1}, max_restarts=0)
    class Owner:
        def __init__(self):
            self.child = Trainer.remote()

        def who(self):
            return who(), ray.get(self.child.who.remote())

    def actor_out_of_memory():
        actor = Trainer.remote()
        victim = as_here(ray.get(actor.who.remote()))
        truth.death("driver", mine, "exit", exit_code=1, cause="actor", node="guest1", **PROVEN)
        truth.death("actor", victim, "kernel-oom-memcg", signal=9, sender=None, limit_bytes=ROOM, node="guest2", **PROVEN)
        truth.write(kind="job", driver=mine, outcome="failed", cause="actor")
        ray.get(actor.enter_a_small_cgroup.remote())
        # Leave time for Ray's logs and the recorders to learn of every process.
        time.sleep(2)
        ray.get(actor.eat.remote())

    def owner_killed():
        owner = Owner.remote()
        victim, child = ray.get(owner.who.remote())
        time.sleep(2)
        sender = {"pid": os.getpid(), "mechanism": "kill"}
        there = {key: child[key] for key in ("pid", "start_ticks")}
        truth.death("owner", as_here(victim), "signal", signal=9, sender=sender, node="guest1", **PROVEN)
        truth.death("child", as_here(child), "ray-collapse", cause="owner", node="guest2")
        truth.write(kind="job", driver=mine, outcome="succeeded", cause=None)
        os.kill(victim["pid"], signal.SIGKILL)
        if not other.ask("gone", there, PATIENCE):
            truth.failed("child", "it was still alive")

    {"actor_out_of_memory": actor_out_of_memory, "owner_killed": owner_killed}[kind]()


def say(event):
    """Prints the progress of this machine on the first serial port."""
    write("/dev/kmsg", f"<2>staging: {event} after {time.clock_gettime(time.CLOCK_BOOTTIME):.0f} s\n")


def head(truth):
    with Recorder():
        start_ray("--head", "--include-dashboard=false", "--port=6379", *about_node("guest1"))
        say("the head is there")
        truth.write(kind="boot", seconds=booted())
        session = os.path.basename(os.path.realpath("/tmp/ray/session_latest"))
        truth.write(kind="cluster", session=session, raylet=process(raylet_pid()))
        other = Other()
        clock = [other.ahead()]
        other.ask("the head is there")
        for kind, status in (("actor_out_of_memory", 1), ("owner_killed", 0)):
            done = subprocess.run([sys.executable, os.path.abspath(__file__), kind], timeout=PATIENCE)
            say(kind)
            if done.returncode != status:
                truth.failed(kind, f"the driver ended with {done.returncode}")
        clock.append(other.ahead())
        # Leave time for the GCS's last log lines about them.
        time.sleep(5)
        other.ask("all is staged")
    section("clock", json.dumps(clock))


def worker(truth):
    told = {"the head is there": threading.Event(), "all is staged": threading.Event()}
    threading.Thread(target=serve, args=(told,), daemon=True).start()
    with Recorder():
        if not told["the head is there"].wait(PATIENCE):
            raise TimeoutError("nobody said that the head is there")
        start_ray(f"--address={GCS}", *about_node("guest2"))
        say("the worker node is there")
        if not told["all is staged"].wait(PATIENCE):
            truth.failed("guest2", "nobody said that all is staged")


def about_node(name):
    # With 0 CPUs, Ray starts no worker before it is needed. Each start takes a minute here.
    return ["--num-cpus=0", f"--node-ip-address={ADDRESSES[name]}", f"--node-name={name}", f'--resources={{"{name}": 100}}']


def main():
    name = sys.argv[-1]
    if name not in ADDRESSES:
        return driver(name)
    boot(name)
    truth = Truth(TRUTH)
    try:
        join_network(ADDRESSES[name])
        {"guest1": head, "guest2": worker}[name](truth)
    except BaseException as error:  # noqa: BLE001 - the machine reports what it has, and ends
        truth.failed(name, repr(error))
    for said, path in (("truth", TRUTH), ("log", LOG)):
        section(said, read(path) if os.path.exists(path) else "")
    with open(FILE, "rb") as file:
        section("recording", gzip.compress(file.read()).hex())
    end()


if __name__ == "__main__":
    main()
