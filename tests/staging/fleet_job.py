"""The drivers of fleet.py: `fleet_job.py KIND ROLL`."""

import os
import sys
import time

import ray

from truth import Roll, wait_for


def on(number, **options):
    return {"num_cpus": 0, "resources": {f"node{number}": 1}, **options}


@ray.remote
class Trainer:
    def __init__(self, folder, label):
        self.roll = Roll(folder)
        self.roll.announce(label)

    def eat_when_told(self):
        told(self.roll, "eat")
        kept = []
        while True:
            kept.append(bytearray(os.urandom(1) * (1 << 20)))

    def sleep(self):
        time.sleep(600)


@ray.remote
def work(folder, label):
    Roll(folder).announce(label)
    time.sleep(600)


@ray.remote
class Owner:
    def __init__(self, folder):
        self.folder = folder
        self.children = [Trainer.options(**on(number)).remote(folder, f"actor{number}") for number in (3, 4)]
        self.running = [child.sleep.remote() for child in self.children]
        self.running += [work.options(max_retries=0, **on(number)).remote(folder, f"task{number}") for number in (3, 4)]
        Roll(folder).announce("owner")

    def sleep(self):
        time.sleep(600)


def told(roll, word):
    return wait_for(lambda: os.path.exists(os.path.join(roll.folder, word)), 600)


def actor_out_of_memory(roll):
    actor = Trainer.options(**on(3)).remote(roll.folder, "actor")
    ray.get(actor.eat_when_told.remote())


def owner_killed(roll):
    owner = Owner.options(**on(2)).remote(roll.folder)
    waiting = owner.sleep.remote()
    told(roll, "go")
    del waiting


def waits_for_an_actor(number):
    """Returns a driver that fails when its actor on this node is lost."""

    def job(roll):
        actor = Trainer.options(**on(number)).remote(roll.folder, "actor")
        ray.get(actor.sleep.remote())

    return job


def finishes(*numbers):
    """Returns a driver with sleeping actors on these nodes. It finishes after the word `go`."""

    def job(roll):
        actors = [Trainer.options(**on(number)).remote(roll.folder, f"actor{number}") for number in numbers]
        waiting = [actor.sleep.remote() for actor in actors]
        told(roll, "go")
        del waiting

    return job


raylet_killed = waits_for_an_actor(4)
node_cut_off = waits_for_an_actor(4)
gcs_killed = waits_for_an_actor(2)
head_gone = waits_for_an_actor(3)
two_jobs = actor_out_of_memory
second_job = finishes(2, 3)
node_drained = finishes(2)
idle_node_drained = finishes()


def main():
    kind, folder = sys.argv[1:]
    roll = Roll(folder)
    ray.init(log_to_driver=False, logging_level="ERROR")
    roll.announce("driver")
    globals()[kind](roll)


if __name__ == "__main__":
    main()
