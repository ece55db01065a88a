"""Lists the memory kills of a report, and whose processes they were.

raytrace report run.raytrace --format json | python3 memory_kills.py
"""

import json
import sys

MEMORY = {"kernel-oom", "kernel-oom-memcg", "kernel-oom-global", "ray-memory-monitor"}


def memory_kills(report):
    for death in report["deaths"]:
        killer = death["verdict"]["killer"]
        sender = death["sender"] or {}
        if killer in MEMORY or sender.get("relation") == "oom-daemon":
            owner = death["actor_class"] or death["task_name"] or death["comm"]
            yield killer, owner, death["pid"], death["job_id"] or "-"


for kill in memory_kills(json.load(sys.stdin)):
    print(*kill)
