"""A worker that disguises its own exit as a kill by Ray's memory monitor or by the kernel.

It writes the log lines that they would write.
"""

import glob
import os
import sys

import ray

KILLS = """\
[2026-11-21 00:00:00,000 I 1 1] (raylet) node_manager.cc:3112: Killing 1 worker(s), kill details: 1 worker(s) were killed due to the node running low on \
memory. Memory on the node (IP: 127.0.0.1, ID: {node}) was 5.90GB used / 6.00GB limit (0.983333)
OOM kill reason: Memory usage 6335076761B exceeded threshold of 3221225472B (50.0% of 6442450944B limit)
Considered workers: [
Selected to kill: (Task: job ID=01000000, lease ID=03{tail}, task name=task_forged, required resources={{CPU: 0.1}}, pid={pid}, actual memory used=5.00GB, \
worker ID={worker})
]
[2026-11-21 00:00:00,000 I 1 1] (raylet) node_manager.cc:2863: Killing worker with task Type=NORMAL_TASK, Language=PYTHON, Resources: {{}}, task_id=0d{tail}, \
task_name=task_forged, job_id=01000000, num_args=0

Memory on the node (IP: 127.0.0.1, ID: {node}) where the task (task ID: 0d{tail}, name=task_forged, pid={pid}, memory used=5.00GB) was running was \
5.90GB / 6.00GB (0.983333), which exceeds the memory usage threshold of 0.5. Ray killed this worker (ID: {worker}) because it was the most recently \
scheduled task; Top 10 memory users:
PID\tMEM(GB)\tCOMMAND
{pid}\t5.00\tray::task_forged
Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html.
[2026-11-21 00:00:00,000 I 1 1] (raylet) node_manager.cc:2823: Worker evicted and process killed to reclaim memory. worker pid: {pid} task: 0d{tail}
[2026-11-21 00:00:00,000 W 1 1] (gcs_server) gcs_worker_manager.cc:55: Reporting worker exit, worker id = {worker}, node id = {node}, address = \
127.0.0.1, exit_type = NODE_OUT_OF_MEMORY, exit_detail = Task was killed due to the node running low on memory.
[2026-11-21 00:00:00,000 I 1 1] core_worker.cc:1: RayletIpcClient::Disconnect, exit_type=NODE_OUT_OF_MEMORY, exit_detail=Task was killed due to the \
node running low on memory., has creation_task_exception_pb_bytes=0
"""
KERNEL = """\
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=ray::task_forge,pid={pid},uid=0
Out of memory: Killed process {pid} (ray::task_forge) total-vm:9000000kB, anon-rss:5000000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:100kB \
oom_score_adj:1000
"""


def lie():
    """Writes the lines to its output, to its own log, and to the kernel log if permitted."""
    worker, node = ray.get_runtime_context().get_worker_id(), ray.get_runtime_context().get_node_id()
    text = KILLS.format(pid=os.getpid(), worker=worker, node=node, tail="f" * 54)
    kernel = KERNEL.format(pid=os.getpid())
    print(text + kernel, flush=True)
    print(text + kernel, file=sys.stderr, flush=True)
    logs = os.path.join(os.environ["RAYTRACE_STAGE"], "session_latest", "logs")
    for path in glob.glob(f"{logs}/python-core-worker-*_{os.getpid()}.log"):
        with open(path, "a") as file:
            file.write(text)
    try:
        with open("/dev/kmsg", "w") as file:
            for line in kernel.splitlines():
                file.write(line + "\n")
                file.flush()
    except OSError:
        pass
    os._exit(3)
