"""The driver of stress.py."""

import sys

import ray

from acts import Host

ray.init(log_to_driver=False, logging_level="ERROR")
host = Host.remote("/tmp")
assert ray.get(host.many.remote(int(sys.argv[1])), timeout=250) == int(sys.argv[1])
ray.get(host.start_sleepers.remote(int(sys.argv[2])))
ray.get(host.kill_sleepers.remote())
