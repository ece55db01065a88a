"""Runs the examples and saves raytrace's output for each of them.

    sudo python gallery.py --raytrace PROGRAM --recordings FOLDER [--keep FOLDER] [NAME…]

Each run has its own Ray cluster in its own memory cgroup, which Ray takes for the machine. A kill
there does not affect the rest of the machine. `cargo xtask gallery` installs what this needs and
saves the texts in the folder of each example.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "staging"))

from cluster import BIN, Cluster  # noqa: E402
from truth import comm, wait_for  # noqa: E402

GIB = 1 << 30
MIB = 1 << 20
# Timeout in seconds. On a busy machine everything takes long.
PATIENCE = 600


@dataclass
class Run:
    """One job on one cluster; its recording is NAME.raytrace."""

    name: str
    job: list
    # The memory size that Ray takes for the machine's, and the environment of `ray start`.
    limit: int
    settings: dict
    start: dict = field(default_factory=dict)
    mounts: str = "true"
    # Environment variables of the job only.
    environment: dict = field(default_factory=dict)
    doctor: bool = False
    # When the job has printed this, the recording so far is copied to NAME-cut.raytrace.
    cut_at: str = ""


def verl():
    ranks = "actor_rollout_ref"
    job = [
        "verl/main_ppo.py",
        "data.max_prompt_length=10240",
        "data.max_response_length=512",
        "data.train_batch_size=8",
        f"{ranks}.actor.fsdp_config.param_offload=True",
        f"{ranks}.actor.fsdp_config.optimizer_offload=True",
        f"{ranks}.ref.fsdp_config.optimizer_offload=True",
        f"{ranks}.rollout.gpu_memory_utilization=0.5",
        f"{ranks}.rollout.enable_chunked_prefill=True",
        "trainer.n_gpus_per_node=8",
    ]
    settings = {"RAY_memory_usage_threshold": "0.8", "RAY_object_store_memory": str(30 * GIB)}
    # The training script exports this after `ray start`, as the document shows it.
    own = {"RAY_memory_usage_threshold": "0.98"}
    start = {"cpus": 8, "object_store_memory": 512 * MIB}
    yield Run("verl", job, 5 * GIB, settings, start, environment=own, doctor=True, cut_at="call 7\n")


def openrlhf():
    small = "mount -t tmpfs -o size=64m none /dev/shm"
    start = {"object_store_memory": 512 * MIB, "num_gpus": 2}
    settings = {"RAY_memory_usage_threshold": "0.8", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    job = ["OpenRLHF/train_ppo_ray.py", "--vllm.gpu_memory_utilization", "0.8", "--vllm.swap_space", "4"]
    yield Run("openrlhf", job, 3 * GIB, settings, start, mounts=small, doctor=True)


def easyr1():
    keepalive = {"RAY_grpc_client_keepalive_time_ms": "10000", "RAY_grpc_client_keepalive_timeout_ms": "8000"}
    settings = {"RAY_memory_usage_threshold": "0.8"}
    for name, offload in [("easyr1", "true"), ("easyr1-no-offload", "false")]:
        job = ["EasyR1/main.py", f"worker.actor.offload.offload_params={offload}", "worker.rollout.gpu_memory_utilization=0.6"]
        yield Run(name, job, 2 * GIB, settings, environment=keepalive)


def simplerl():
    rollout = "actor_rollout_ref.rollout"
    job = ["simpleRL-reason/main_ppo.py", f"{rollout}.free_cache_engine=True", f"{rollout}.swap_space=40", "data.max_response_length=8192"]
    yield Run("simplerl", job, 2 * GIB, {"RAY_memory_usage_threshold": "0.8"}, cut_at="call 7\n")


def ray_guide():
    for name, each in [("ray-guide", 1), ("ray-guide-half", 2)]:
        job = ["ray-guide/test.py", "--num-tasks", "15", "--num-cpus", str(each)]
        yield Run(name, job, 4 * GIB, {"RAY_memory_usage_threshold": "0.75"}, {"cpus": 15})


# For each example's folder: its runs, and the raytrace arguments for each output file.
EXAMPLES = {
    "verl": (verl, {"report.txt": ["report", "verl.raytrace"], "cut.txt": ["report", "verl-cut.raytrace"]}),
    "OpenRLHF": (openrlhf, {"report.txt": ["report", "openrlhf.raytrace"]}),
    "EasyR1": (
        easyr1,
        {
            "report.txt": ["report", "easyr1.raytrace"],
            "explain.txt": ["explain", "easyr1.log"],
            "diff.txt": ["diff", "easyr1.raytrace", "easyr1-no-offload.raytrace"],
        },
    ),
    "simpleRL-reason": (
        simplerl,
        {"report.txt": ["report", "simplerl.raytrace"], "cut.txt": ["report", "simplerl-cut.raytrace"]},
    ),
    "ray-guide": (
        ray_guide,
        {
            "report.txt": ["report", "ray-guide.raytrace"],
            "diff.txt": ["diff", "ray-guide.raytrace", "ray-guide-half.raytrace"],
        },
    ),
}


class Gallery:
    def __init__(self, raytrace, recordings, keep):
        self.raytrace = os.path.abspath(raytrace)
        self.recordings = os.path.abspath(recordings)
        self.keep = keep and os.path.abspath(keep)
        os.makedirs(self.recordings, exist_ok=True)

    def make(self, name):
        runs, views = EXAMPLES[name]
        for run in runs():
            began = time.monotonic()
            self.record(name, run)
            print(f"    {run.name}: {time.monotonic() - began:.0f} s", flush=True)
        for file, arguments in views.items():
            self.view(name, file, arguments)

    def record(self, name, run):
        with Cluster(f"gallery-{run.name}", settings=run.settings, mounts=run.mounts, limit=run.limit) as cluster:
            cluster.environment["PATH"] = f"{BIN}:{os.environ['PATH']}"
            cluster.environment["PYTHONPATH"] = HERE
            cluster.start(**{"cpus": 4, **run.start})
            raylet = str(cluster.raylet["pid"])
            if run.doctor:
                self.view(name, "doctor.txt", ["doctor", "--raylet-pid", raylet])
            recorder = self.recorder(f"{run.name}.raytrace", raylet)
            try:
                self.job(run, cluster)
                time.sleep(1)
            finally:
                recorder.send_signal(signal.SIGINT)
                code = recorder.wait(timeout=PATIENCE)
            if code != 0:
                raise RuntimeError(f"raytrace record ended with {code}")

    def job(self, run, cluster):
        environment = {**cluster.environment, "RAY_ADDRESS": cluster.address, **run.environment}
        path = os.path.join(self.recordings, f"{run.name}.log")
        with open(path, "w") as log:
            job = cluster.popen(["python", *run.job], cwd=HERE, env=environment, stdout=log, stderr=log)
            if run.cut_at and wait_for(lambda: run.cut_at in open(path).read(), PATIENCE):
                self.copy(run.name)
            job.wait(timeout=PATIENCE)

    def copy(self, name):
        """Copies the recording as it is now. It may be read while it is being written."""
        for end in ("", "-wal"):
            shutil.copy(*(os.path.join(self.recordings, f"{part}.raytrace{end}") for part in (name, f"{name}-cut")))

    def recorder(self, file, raylet):
        before = file.removesuffix(".raytrace")
        for old in os.listdir(self.recordings):
            if re.match(rf"{before}(-cut)?\.raytrace", old):
                os.remove(os.path.join(self.recordings, old))
        command = [self.raytrace, "record", "-o", file, "--raylet-pid", raylet]
        started = subprocess.Popen(command, cwd=self.recordings, stderr=subprocess.PIPE, text=True)
        said = []
        for line in started.stderr:
            said.append(line)
            if line.startswith("Recording to"):
                # The recorder keeps printing. It would block if nobody read the pipe.
                subprocess.Popen(["cat"], stdin=started.stderr, stdout=subprocess.DEVNULL)
                return started
        raise RuntimeError(f"raytrace did not record: {''.join(said)}")

    def view(self, name, file, arguments):
        done = subprocess.run([self.raytrace, *arguments], cwd=self.recordings, capture_output=True, text=True)
        # 9: doctor found a problem, as it should.
        if done.returncode not in (0, 9):
            raise RuntimeError(f"raytrace {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        folder = os.path.join(self.keep or self.recordings, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, file), "w") as kept:
            text = done.stdout.replace(self.recordings, "/recordings").replace(self.raytrace, "raytrace")
            kept.write(neutral(f"$ raytrace {' '.join(arguments)}\n{text}"))


def neutral(text):
    """Removes the names of the machine on which the gallery was made."""
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "node", text)
    # Keep only the version. Its suffix names the distribution or the provider.
    text = re.sub(r"(Linux \d+\.\d+)\.\S+", r"\1", text)
    return re.sub(rf"\b{re.escape(comm(1))} 1\b", "init 1", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--raytrace", required=True, help="the program")
    parser.add_argument("--recordings", required=True, help="where recordings and the jobs' output go")
    parser.add_argument("--keep", help="where the texts go, a folder each; without it beside the recordings")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(EXAMPLES)}; all without it")
    arguments = parser.parse_args()
    gallery = Gallery(arguments.raytrace, arguments.recordings, arguments.keep)
    for name in arguments.names or EXAMPLES:
        print(f"==> {name}", flush=True)
        gallery.make(name)


if __name__ == "__main__":
    main()
