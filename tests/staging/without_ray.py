"""Runs a script that uses Ray in this process, without Ray.

There is one fake node, and tasks are plain calls.

    python without_ray.py SCRIPT [ARGUMENT…]
"""

import runpy
import sys
import types


class Task:
    def __init__(self, function):
        self.function = function

    def options(self, **_options):
        return self

    def remote(self, *arguments):
        return self.function(*arguments)


def main():
    names = ("ray", "ray.util", "ray.util.scheduling_strategies")
    ray, _util, strategies = (sys.modules.setdefault(name, types.ModuleType(name)) for name in names)
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: (node, soft)
    ray.init = lambda **_options: None
    ray.remote = lambda **_options: Task
    ray.get = lambda value, timeout: value
    ray.nodes = lambda: [{"Alive": True, "NodeID": "0123456789", "NodeManagerHostname": "n0"}]
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
