"""Measures a recorder for a raylet in another pid namespace, with a full log folder.

    attach.py RAYTRACE

The namespace has 300 processes. The script prints the time until "Recording", the time until the
log of a live driver is open, and the recorder's share of a core afterwards. It does so with 5,000
logs of drivers that have ended, and with 100,000 file names in all, each with and without ten new
names a second. The raylet is a shell, so Ray is not needed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from recorder import cpu_seconds, start

PROCESSES = 300
OLD_LOGS = 5_000
NAMES = 100_000
# Seconds after which the folder has been read, and a live driver has been found.
SETTLES = 8
MEASURED = 15


def make(logs, names):
    old = time.time() - 30 * 86_400
    for name in names:
        path = f"{logs}/{name}"
        with open(path, "w") as file:
            file.write("x\n")
        os.utime(path, (old, old))


def has_open(pid, words):
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            if words in os.readlink(f"/proc/{pid}/fd/{descriptor}"):
                return True
        except OSError:
            pass
    return False


def measure(raytrace, folder, session, what, churns):
    recording = f"{folder}/x.raytrace"
    began = time.monotonic()
    recorder = start(raytrace, folder, recording, "--session-dir", session)
    attached = time.monotonic() - began
    found = None
    while time.monotonic() - began < attached + SETTLES:
        if found is None and has_open(recorder.pid, "02000000_"):
            found = time.monotonic() - began
        time.sleep(0.02)
    before, since, made = cpu_seconds(recorder.pid), time.monotonic(), 0
    while time.monotonic() - since < MEASURED:
        if churns:
            open(f"{session}/logs/new-{made}.out", "w").close()
            made += 1
        time.sleep(0.1)
    share = (cpu_seconds(recorder.pid) - before) / (time.monotonic() - since)
    recorder.send_signal(signal.SIGINT)
    recorder.wait()
    os.unlink(recording)
    for number in range(made):
        os.unlink(f"{session}/logs/new-{number}.out")
    live = "not found" if found is None else f"found after {found:.2f} s"
    print(f"{what}: attached after {attached:.2f} s, the live driver {live}, then {share * 100:.2f} % of a core", flush=True)


def main():
    folder = tempfile.mkdtemp(prefix="raytrace-attach-")
    session = f"{folder}/session_2026-11-21_00-00-00_000000_1"
    logs = f"{session}/logs"
    os.makedirs(logs)
    os.makedirs(f"{session}/sockets")
    os.symlink("/bin/sh", f"{folder}/raylet")
    make(logs, (f"python-core-driver-{'f' * 48}01000000_{pid}.log" for pid in range(100_000, 100_000 + OLD_LOGS)))
    driver = f"sh -c 'exec 9>{logs}/python-core-driver-{'e' * 48}02000000_$$.log; sleep 1000'"
    inside = f"for i in $(seq {PROCESSES}); do sleep 1000 & done; {driver} & wait"
    options = [f"--raylet_socket_name={session}/sockets/raylet", f"--session-dir={session}"]
    raylet = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", f"{folder}/raylet", "-c", inside, *options],
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
    )
    try:
        time.sleep(3)
        for count in (OLD_LOGS, NAMES):
            if count > OLD_LOGS:
                make(logs, (f"worker-{number}.out" for number in range(count - OLD_LOGS)))
            measure(sys.argv[1], folder, session, f"{count:,} names", False)
            measure(sys.argv[1], folder, session, f"{count:,} names, ten new ones a second", True)
    finally:
        raylet.kill()
        raylet.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
