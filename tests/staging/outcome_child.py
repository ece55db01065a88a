"""The subprocess of outcome_job.py that fills its cgroup. A pool imports it by its name."""

import time

from truth import Roll


def eat(folder, kind):
    """Allocates memory until the kernel kills this process at its cgroup's limit."""
    Roll(folder).announce(kind)
    time.sleep(0.3)
    kept = []
    while True:
        kept.append(b"x" * (4 << 20))
