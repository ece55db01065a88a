"""Records one job of `cases.py`, and measures it independently of raytrace.

    sudo python real.py --raytrace PROGRAM --models FOLDER --out FOLDER [--changed]
        [--set KEY=VALUE]… [--threshold SHARE] [--limit SIZE] NAME

Writes NAME.raytrace, NAME.log (the output of the driver), NAME.samples.jsonl (the
memory of processes and cgroups, as the kernel counts it) and NAME.truth.json. `--changed` runs the
job with its line of code changed. `--set` adds settings to its command line. `--threshold` and
`--limit` replace Ray's threshold, and the limit that Ray cannot see.
"""

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "staging"))

from cases import GIB, MIB, cases  # noqa: E402
from cgroup import V1  # noqa: E402
from cluster import BIN, Cluster  # noqa: E402
from truth import command_line  # noqa: E402

# Seconds for one job.
PATIENCE = 1200
# A smaller process is not sampled with smaps_rollup, which takes the lock of its memory map.
SMALL = 60 * MIB


def now():
    """Returns the current time in the format of reports."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Witness(threading.Thread):
    """Samples the memory of a cluster's cgroups and processes, four times a second.

    A single call may allocate 1 GiB between two samples.
    """

    def __init__(self, cluster, path):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.file = open(path, "w", buffering=1)
        self.done = threading.Event()
        self.peak = 0

    def run(self):
        while not self.done.wait(0.25):
            row = {"time": now(), "cgroup": counters(self.cluster.cgroup.path)}
            self.peak = max(self.peak, row["cgroup"]["anon"])
            row["processes"] = [found for pid in self.cluster.cgroup.pids() if (found := held(pid))]
            self.file.write(json.dumps(row) + "\n")

    def end(self):
        self.done.set()
        self.join()
        self.file.close()


def counters(path):
    """Returns the memory of a cgroup and its children in bytes, from the cgroup's counters."""
    with open(f"{path}/{'memory.usage_in_bytes' if V1 else 'memory.current'}") as file:
        used = int(file.read())
    with open(f"{path}/memory.stat") as file:
        stat = {key: int(value) for key, value in map(str.split, file)}
    if V1:
        return {"used": used, "anon": stat["total_rss"], "cache": stat["total_cache"], "shmem": stat["total_shmem"]}
    return {"used": used, "anon": stat["anon"], "cache": stat["file"], "shmem": stat["shmem"]}


def held(pid):
    """Returns the memory of the process, as the kernel counts it.

    Pages that it shares with a forked process count proportionally (PSS).
    """
    try:
        with open(f"/proc/{pid}/statm") as file:
            resident = int(file.read().split()[1]) * 4096
        if resident < SMALL:
            return None
        with open(f"/proc/{pid}/smaps_rollup") as file:
            rows = dict(line.split(":", 1) for line in file if ":" in line and "-" not in line.split(":")[0])
    except OSError:
        return None
    kib = {key: int(value.split()[0]) for key, value in rows.items() if value.endswith("kB\n")}
    if "Pss_Anon" not in kib:
        return None
    private = kib["Private_Dirty"] + kib["Private_Clean"]
    return {"pid": pid, "pss_anon": kib["Pss_Anon"] << 10, "private": private << 10, "resident": resident, "title": command_line(pid)[:80]}


def record(raytrace, out, name, *which):
    """Starts a recorder. `which` are options that say what it watches. Returns once it records."""
    command = [raytrace, "record", "-o", f"{name}.raytrace", *which]
    recorder = subprocess.Popen(command, cwd=out, stderr=subprocess.PIPE, text=True)
    for line in recorder.stderr:
        if line.startswith("Recording to"):
            # The recorder keeps printing. It would block if nobody read the pipe.
            subprocess.Popen(["cat"], stdin=recorder.stderr, stdout=subprocess.DEVNULL)
            return recorder
    raise RuntimeError("raytrace did not record")


def settings(case):
    return {
        "RAY_memory_usage_threshold": str(case.threshold),
        # With niceness 15, training would take far too long on a machine with other work.
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
        "HYDRA_FULL_ERROR": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONPATH": "",
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "RAYTRACE_REAL": "1",
        **case.environment,
    }


def told(text):
    """Returns what the driver printed about its end: names of exceptions, and pids in them."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    raised = re.findall(r"^(?:\S*\.)?((?:OutOfMemory|ActorDied|ActorUnavailable|WorkerCrashed|RayTask|Worker)\w*Error)\b", text, re.M)
    pids = re.findall(r"^\s*pid: (\d+)$|Selected to kill: .*?pid=(\d+)", text, re.M)
    return {"exceptions": raised, "pids": [int(one or other) for one, other in pids]}


def drive(cluster, job, path):
    """Runs the driver to its end. Returns its exit code and how long it took."""
    began = time.monotonic()
    with open(path, "w") as log:
        environment = {**cluster.environment, "RAY_ADDRESS": cluster.address}
        driver = cluster.popen(["python", *job], env=environment, stdout=log, stderr=log)
        try:
            code = driver.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
            driver.kill()
    # Leave time for the consequences of its end.
    time.sleep(2)
    return code, time.monotonic() - began


def recorded(arguments, case, label, job):
    """Runs the job on its own cluster, with a recorder and a witness."""
    path = os.path.join(arguments.out, label)
    with Cluster(f"real-{label}", settings=settings(case), limit=case.machine) as cluster:
        if case.unseen:
            cluster.leaf.limit(case.unseen)
        cluster.start(**{"cpus": 4, **case.start})
        witness = Witness(cluster, f"{path}.samples.jsonl")
        recorder = record(os.path.abspath(arguments.raytrace), arguments.out, label, "--raylet-pid", str(cluster.raylet["pid"]))
        witness.start()
        try:
            code, seconds = drive(cluster, job, f"{path}.log")
        finally:
            witness.end()
            recorder.send_signal(signal.SIGINT)
            if recorder.wait(timeout=120) != 0:
                raise RuntimeError(f"raytrace record ended with {recorder.returncode}")
        kills = cluster.leaf.oom_kills() + cluster.cgroup.oom_kills()
    return {"exit": code, "seconds": round(seconds, 1), "kernel_kills": kills, "peak_anon": witness.peak}


def run(arguments):
    case = cases(arguments.models)[arguments.name]
    case.threshold = arguments.threshold or case.threshold
    case.unseen = arguments.limit or case.unseen
    label = arguments.label or arguments.name
    for old in os.listdir(arguments.out):
        if old.startswith(f"{label}."):
            os.remove(os.path.join(arguments.out, old))
    path = os.path.join(arguments.out, label)
    job = (case.changed if arguments.changed else case.job) + arguments.set
    seen = recorded(arguments, case, label, job)
    with open(f"{path}.log", errors="replace") as log:
        text = log.read()
    truth = {
        "name": arguments.name,
        "job": job,
        "survived": seen["exit"] == 0 and case.finished in text,
        "killer": case.killer,
        "line": case.line,
        "driver": told(text),
        **seen,
    }
    with open(f"{path}.truth.json", "w") as file:
        json.dump(truth, file, indent=1)
    print(f"    {label}: exit {seen['exit']}, {seen['seconds']:.0f} s, peak {seen['peak_anon'] / GIB:.2f} GiB anonymous", flush=True)


def size(text):
    """Returns the bytes of a size that is written to a cgroup: 12G."""
    return int(text[:-1]) << {"M": 20, "G": 30}[text[-1]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--raytrace", required=True, help="the program")
    parser.add_argument("--models", required=True, help="what make_model.py made")
    parser.add_argument("--out", required=True, help="where files go")
    parser.add_argument("--label", help="the name of the files, where it is not the job's")
    parser.add_argument("--changed", action="store_true", help="with its line of code changed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one more setting")
    parser.add_argument("--threshold", type=float, help="Ray's threshold, where it is not the job's")
    parser.add_argument("--limit", type=size, help="the limit that Ray cannot see: 12G")
    parser.add_argument("name")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    arguments.out = os.path.abspath(arguments.out)
    arguments.models = os.path.abspath(arguments.models)
    run(arguments)


if __name__ == "__main__":
    main()
