"""Acts that are disguised as others, on a private cluster: `hostile.py --truth FILE`. What each really was is the truth."""

import argparse
import os
import subprocess
import sys

from cluster import Cluster
from truth import PATIENCE, Roll, Truth, wait_gone

# Run by every Python that finds it: here by the real `ray stop`.
SITECUSTOMIZE = """
import os, signal, sys
if sys.orig_argv[-1] == "stop":
    os.kill({victim}, signal.SIGKILL)
    os._exit(0)
"""


RAY = os.path.join(os.path.dirname(sys.executable), "ray")


def under_ray_stop(truth, cluster, label, victim, ray, certainty):
    """A file beside the real `ray stop` kills a worker in its name, and Ray's tool does nothing."""
    folder = os.path.join(cluster.folder, label.replace("/", "-"))
    os.makedirs(folder)
    with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
        file.write(SITECUSTOMIZE.format(victim=victim["pid"]))
    environment = {**cluster.environment, "PYTHONPATH": folder}
    # A `ray stop` that does not find the file would end every Ray of the machine.
    found = cluster.run([sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)"], env=environment)
    if not found.startswith(folder):
        truth.failed(label, f"Python takes {found.strip()}, not the file in {folder}")
        return
    tool = cluster.popen([ray, "stop"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tool.wait(timeout=PATIENCE)
    # Who did it is as certain as the path is; that it was `ray stop` which wanted it is not.
    truth.death(
        label, victim, ["ray-intended"] if ray != RAY else ["ray-intended", "signal"], certainty=certainty,
        reason_certainty="inferred", sender={"comm": "ray", "mechanism": "kill"},
    )
    if not wait_gone(victim):
        truth.failed(label, "it lives on")


def link(cluster):
    """`~/bin/ray`, which leads to the installation's."""
    folder = os.path.join(cluster.folder, "bin")
    os.makedirs(folder)
    path = os.path.join(folder, "ray")
    os.symlink(RAY, path)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--truth", required=True)
    truth = Truth(os.path.abspath(parser.parse_args().truth))
    with Cluster("hostile") as cluster:
        cluster.start()
        truth.write(kind="cluster", session=cluster.session(), raylet=cluster.raylet)
        roll = Roll(os.path.join(cluster.folder, "roll"))
        command = ["hostile_job.py", "--truth", truth.path, "--roll", roll.folder]
        driver = cluster.python(*command, "--raylet", str(cluster.raylet["pid"]), stdin=subprocess.PIPE)
        under_ray_stop(truth, cluster, "site/0", roll.wait("site/0"), RAY, "proven")
        # The path is looked at after the act, when its owner may have led it elsewhere.
        under_ray_stop(truth, cluster, "link/0", roll.wait("link/0"), link(cluster), "inferred")
        driver.stdin.close()
        if driver.wait(timeout=PATIENCE) != 0:
            truth.failed("driver", f"the driver ended with {driver.returncode}")


if __name__ == "__main__":
    main()
