"""Runs a cluster with a job that never ends.

`cargo xtask bench scale`, `bench steps` and `soak long` run the recorder beside it. It prints
"ready" with the session's folder, then a line of JSON each second: the steps so far and the seconds
that they took. It exits when standard input ends.
"""

import argparse
import subprocess
import sys

from cluster import LIMIT, Cluster

WORKER = 160 << 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between two workers that are killed; 0: none")
    parser.add_argument("--pause", type=float, default=0, help="seconds between two steps of the job")
    arguments = parser.parse_args()
    limit = LIMIT + arguments.workers * WORKER
    with Cluster("steady", settings={"RAY_memory_monitor_refresh_ms": "0"}, limit=limit) as cluster:
        cluster.start()
        settings = [str(one) for one in (arguments.workers, arguments.kill_every, arguments.pause)]
        job = cluster.python("steady_job.py", *settings, stdin=subprocess.PIPE, stdout=None)
        sys.stdin.read()
        job.stdin.close()
        job.wait(timeout=60)


if __name__ == "__main__":
    main()
