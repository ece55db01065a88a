"""Kills a process in various ways. Each function returns the sender that raytrace must name."""

import ctypes
import os
import signal
import subprocess
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_TGKILL = 234


def by_shell(victim, number):
    """Kills with `kill` in a shell, as a user does.

    The shell has exited before anyone can look it up.
    """
    shell = subprocess.Popen(["bash", "-c", f"kill -{number} {victim['pid']}; exit 0"])
    shell.wait()
    return {"pid": shell.pid, "comm": "bash", "mechanism": "kill"}


def to_thread(victim, number):
    """Kills with tgkill(2), which signals a thread that is not the leader."""
    threads = [int(name) for name in os.listdir(f"/proc/{victim['pid']}/task")]
    thread = max(threads)
    if LIBC.syscall(SYS_TGKILL, victim["pid"], thread, number) != 0:
        raise OSError(ctypes.get_errno(), "tgkill")
    return {"pid": os.getpid(), "mechanism": "tgkill"}


def queued(victim, number):
    """Kills with sigqueue(3)."""
    if LIBC.sigqueue(victim["pid"], number, ctypes.c_void_p(0)) != 0:
        raise OSError(ctypes.get_errno(), "sigqueue")
    return {"pid": os.getpid(), "mechanism": "sigqueue"}


def by_cgroup(victim, folder):
    """Kills with cgroup.kill of the unified hierarchy, from a shell."""
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/cgroup.procs", "w") as file:
        file.write(str(victim["pid"]))
    shell = subprocess.Popen(["bash", "-c", f"echo 1 > {folder}/cgroup.kill; exit 0"])
    shell.wait()
    return {"pid": shell.pid, "comm": "bash", "mechanism": "cgroup-kill"}


def stop(victim):
    os.kill(victim["pid"], signal.SIGSTOP)


def child_program(kind, *arguments, **options):
    """Starts child.py, which ends in the way that `kind` names."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")
    return subprocess.Popen([sys.executable, "-S", path, kind, *arguments], **options)


def in_background(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread
