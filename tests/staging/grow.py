"""Allocates known amounts of memory, and prints as JSON how much each site allocated.

With `--ray FOLDER` it does so in a Ray actor, otherwise in this process.
"""

import argparse
import json
import os
import sys
import time

import sites


def run(ray):
    grown = {}
    known = sites.known(ray)
    # Wait until the interpreter has started completely.
    time.sleep(1)
    for site in known:
        time.sleep(0.5)
        grown[site.__name__] = site()
    time.sleep(1)
    return grown


def in_ray(folder):
    # A local cluster writes ~/.ray/auth_token. Keep that file in `folder`.
    os.environ["HOME"] = folder
    import ray

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=600 << 20, _temp_dir=folder)

    @ray.remote
    class Grower:
        def grow(self):
            return run(True)

    actor = Grower.remote()
    grown = ray.get(actor.grow.remote())
    ray.shutdown()
    return grown


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray")
    folder = parser.parse_args().ray
    json.dump(in_ray(folder) if folder else run(False), sys.stdout)


if __name__ == "__main__":
    main()
