"""Records one file of Ray's own tests, and saves what Ray reports about each worker's end.

    sudo python ray_tests.py --raytrace PROGRAM --tests FOLDER --out FOLDER FILE

Writes FILE.raytrace, FILE.log (pytest's output), FILE.rows.jsonl (what `ray_tests_plugin.py` wrote,
and the sessions) and FILE.logs (Ray's). The tests run in their own memory cgroup and namespaces:
some fill the machine, some count all processes of Ray, and their clusters use fixed ports.
"""

import argparse
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "staging"))

from cluster import BIN, Cluster, hold_programs_outside  # noqa: E402
from real import record  # noqa: E402

GIB = 1 << 30
# The limit for one test, as in Ray's own pytest.ini, and for a file.
TEST_SECONDS, FILE_SECONDS = 180, 1500
# Before it exits, the recorder judges everything that it has recorded once more, for all clusters
# on the machine.
RECORDER_SECONDS = 600

# The GCS logs unintended worker exits. For a cluster that a test's driver started itself, there is
# no other source.
REPORTED = re.compile(
    r"Reporting worker exit, worker id = (\w+), .*?exit_type = (\w+), exit_detail = (.*?)\. Unintentional worker failures", re.S
)


def arguments_of_pytest(path, rows):
    """Returns the command that runs pytest in its own namespaces.

    The shell stays the first process of the pid namespace, which adopts orphans.
    """
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    inside = [*namespaces, "sh", "-c", 'ip link set lo up && "$@"; exit $?', "sh"]
    options = ["-p", "ray_tests_plugin", "-p", "no:cacheprovider", "--import-mode=importlib", f"--timeout={TEST_SECONDS}"]
    return ["env", f"RAYTRACE_ROWS={rows}", *inside, f"{BIN}/python", "-m", "pytest", "-v", "-o", "asyncio_mode=auto", *options, path]


def environment(cluster):
    """Returns Ray's default settings, with files in the cluster's folder."""
    settings = {key: value for key, value in cluster.environment.items() if not key.startswith("RAY_memory_")}
    return {**settings, "PYTHONPATH": HERE, "RAY_TMPDIR": cluster.folder, "PATH": f"{BIN}:{settings['PATH']}"}


def recorded(arguments, path):
    """Runs the tests of the file. `path` is the path of all output files, without suffix."""
    hold_programs_outside()
    with Cluster("ray-tests", limit=6 * GIB) as cluster, open(f"{path}.log", "w") as log:
        recorder = record(os.path.abspath(arguments.raytrace), arguments.out, os.path.basename(path))
        try:
            command = arguments_of_pytest(os.path.join(arguments.tests, arguments.file), f"{path}.rows.jsonl")
            tests = cluster.popen(command, env=environment(cluster), stdout=log, stderr=log)
            try:
                tests.wait(timeout=FILE_SECONDS)
            except subprocess.TimeoutExpired:
                tests.kill()
                print(f"    {arguments.file} took longer than {FILE_SECONDS} s", flush=True)
        finally:
            recorder.send_signal(signal.SIGINT)
            if recorder.wait(timeout=RECORDER_SECONDS) != 0:
                raise RuntimeError(f"raytrace record ended with {recorder.returncode}")
        keep(cluster.folder, path)


def keep(folder, path):
    """Saves the names of the sessions, the exits that their GCS logged, and all logs."""
    with open(f"{path}.rows.jsonl", "a") as rows:
        for session in sorted(glob.glob(f"{folder}/ray/session_2*")):
            name = os.path.basename(session)
            rows.write(json.dumps({"session": name}) + "\n")
            for log in glob.glob(f"{session}/logs/gcs_server*.out"):
                with open(log, errors="replace") as file:
                    for worker, exit_type, detail in REPORTED.findall(file.read()):
                        rows.write(json.dumps({"worker": worker, "exit_type": exit_type, "exit_detail": detail, "test": name}) + "\n")
            shutil.copytree(f"{session}/logs", f"{path}.logs/{name}", symlinks=True, dirs_exist_ok=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--raytrace", required=True, help="the program")
    parser.add_argument("--tests", required=True, help="where Ray's tests lie")
    parser.add_argument("--out", required=True, help="where files go")
    parser.add_argument("file", help="one of them")
    arguments = parser.parse_args()
    arguments.out, arguments.tests = os.path.abspath(arguments.out), os.path.abspath(arguments.tests)
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, arguments.file.removesuffix(".py"))
    for old in glob.glob(f"{path}.*"):
        shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
    recorded(arguments, path)


if __name__ == "__main__":
    main()
