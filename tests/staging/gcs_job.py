"""The driver of gcs.py: one named actor in a named placement group.

Prints one JSON line, and runs until its standard input ends.
"""

import json
import os
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from truth import myself


@ray.remote(num_cpus=1)
class Keeper:
    def who(self):
        return myself(), ray.get_runtime_context().get_worker_id()


def main():
    ray.init(namespace="stage")
    shelf = placement_group([{"CPU": 1}], name="shelf")
    ray.get(shelf.ready())
    place = PlacementGroupSchedulingStrategy(shelf, placement_group_bundle_index=0)
    keeper = Keeper.options(name="keeper", scheduling_strategy=place).remote()
    who, worker_id = ray.get(keeper.who.remote())
    context = ray.get_runtime_context()
    ids = {
        "actor_id": keeper._actor_id.hex(),
        "worker_id": worker_id,
        "job_id": context.get_job_id(),
        "node_id": context.get_node_id(),
        "driver": os.getpid(),
    }
    print(json.dumps([who, ids]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
