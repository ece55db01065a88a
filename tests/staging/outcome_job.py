"""The driver of outcomes.py: a job in which one worker exits with 4, once, or loses a subprocess."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import ray

import outcome_child
from truth import PATIENCE, Roll, wait_for

folder, kind = sys.argv[1:]


def die_once():
    """Exits with 4, unless another process has already done so."""
    if not os.path.exists(f"{folder}/{kind}"):
        Roll(folder).announce(kind)
        time.sleep(0.3)
        os._exit(4)


@ray.remote(max_retries=2)
def retried():
    die_once()
    return 1


@ray.remote
class Mortal:
    def act(self):
        die_once()
        return 1


@ray.remote
class Reward:
    def score(self):
        """Waits until its cgroup has a limit, then lets a subprocess fill it."""
        Roll(folder).announce(f"{kind}_actor")
        wait_for(lambda: os.path.exists(f"{folder}/{kind}_limited"), PATIENCE)
        with ProcessPoolExecutor(2) as pool:
            return pool.submit(outcome_child.eat, folder, kind).result()


more = {}
if kind == "own_ray":
    more = {"address": "local", "num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False, "_temp_dir": f"{folder}/own"}
ray.init(log_to_driver=False, logging_level="ERROR", **more)
Roll(folder).announce(f"{kind}_driver")
if kind == "retried_task":
    assert ray.get(retried.remote()) == 1
elif kind == "restarted_actor":
    actor = Mortal.options(max_restarts=1, max_task_retries=1).remote()
    assert ray.get(actor.act.remote()) == 1
elif kind in ("fatal_actor", "own_ray"):
    ray.get(Mortal.remote().act.remote())
elif kind == "broken_pool":
    try:
        ray.get(Reward.remote().score.remote())
    finally:
        # A trainer saves its state first.
        time.sleep(4)
elif kind == "caught_death":
    try:
        ray.get(Mortal.remote().act.remote())
    except ray.exceptions.RayActorError:
        time.sleep(1)
else:
    raise ValueError("the driver's own error")
