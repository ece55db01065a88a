"""A job with two busy actors and one busy task, and a driver that waits for them."""

import sys

import ray

from acts import Actor, task
from truth import Roll

ray.init(log_to_driver=False, logging_level="ERROR")
roll = Roll(sys.argv[1])
roll.announce("driver")
busy = [Actor.remote(), Actor.remote()]
waiting = [one.announce_and.remote(roll.folder, f"busy{number}", "sleep", 600) for number, one in enumerate(busy)]
waiting.append(task.options(name="busy").remote(roll.folder, "busy2", "sleep", 600))
ray.get(waiting)
