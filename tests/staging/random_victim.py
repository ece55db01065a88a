"""A process that is about to end in the way that its order (a JSON object, its first argument) names.

It prints one line once it is ready: its pid and threads as the whole machine sees them. Then it waits for a line, and
ends by itself where its order says how.
"""

import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
TIMER_CREATE, TIMER_SETTIME, GETTID, TGKILL, EXIT, UNSHARE_PID = 222, 223, 186, 234, 60, 0x20000000
MIB = 1 << 20
ORDER = json.loads(sys.argv[1])


def caught(_number, _frame):
    """Goes on."""


def exits(_number, _frame):
    time.sleep(ORDER.get("saves", 0))
    os._exit(ORDER.get("code", 0))


def raises_again(number, _frame):
    time.sleep(ORDER.get("saves", 0))
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


HANDLERS = {
    "default": signal.SIG_DFL, "ignored": signal.SIG_IGN, "caught": caught, "exits": exits, "again": raises_again,
}


def waits_for(number):
    signal.sigwait({number})
    if ORDER.get("taken") == "exits":
        os._exit(ORDER.get("code", 0))


def dispose():
    # Python has a handler for this one, which sends it again.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number, how in ORDER.get("signals", {}).items():
        number = int(number)
        if how in HANDLERS:
            signal.signal(number, HANDLERS[how])
        else:
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
            if how == "waited":
                threading.Thread(target=waits_for, args=(number,), daemon=True).start()


def timer(number, after):
    """Arms a POSIX timer."""
    event = (ctypes.c_int * 16)()
    event[2] = number
    made = ctypes.c_int()
    LIBC.syscall(TIMER_CREATE, 1, event, ctypes.byref(made))
    spec = (ctypes.c_long * 4)(0, 0, int(after), int(after % 1 * 1e9))
    LIBC.syscall(TIMER_SETTIME, made, 0, spec, None)


def hold(mib):
    """Holds this much memory, which makes an exit take longer."""
    memory = mmap.mmap(-1, mib * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for offset in range(0, mib * MIB, 4096):
        memory[offset] = 1
    return memory


def spread():
    for _ in range(ORDER.get("threads", 0)):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def end():
    while time.monotonic() < ORDER.get("at", 0):
        pass
    how = ORDER["end"]
    if how == "exit":
        os._exit(ORDER.get("code", 0))
    elif how == "abort":
        os.abort()
    elif how == "fault":
        ctypes.string_at(0)
    elif how == "kill":
        os.kill(os.getpid(), ORDER["own"])
    elif how == "tgkill":
        LIBC.syscall(TGKILL, os.getpid(), LIBC.syscall(GETTID), ORDER["own"])
    elif how == "eat":
        hold(ORDER["mib"])
    time.sleep(1000)


def execs():
    """Runs one program after the other, for ever."""
    path = ORDER["script"]
    say()
    if ORDER["in_exec"] == "thread":
        threading.Thread(target=os.execv, args=("/bin/sh", ["sh", path])).start()
        time.sleep(1000)
    os.execv("/bin/sh", ["sh", path])


def say():
    pid = os.readlink("/proc/self")
    tids = os.listdir("/proc/self/task")
    sys.stdout.write(json.dumps({"pid": int(pid), "tids": [int(tid) for tid in tids], "own": os.getpid()}) + "\n")
    sys.stdout.flush()


def starts_another():
    """Runs the victim as a child, with this process in between."""
    order = {**ORDER, "between": None}

    def start():
        child = subprocess.Popen([sys.executable, "-S", __file__, json.dumps(order)])
        if ORDER["between"] == "thread":
            # The thread that started it ends. The process lives on.
            time.sleep(ORDER.get("lives", 0))
        return child

    if ORDER["between"] == "namespace":
        LIBC.unshare(UNSHARE_PID)
        init = os.fork()
        if init:
            os.waitpid(init, 0)
            os._exit(0)
        child = start()
        time.sleep(ORDER.get("lives", 1000))
        if ORDER.get("init_kills"):
            # By its pid in this namespace.
            os.kill(child.pid, ORDER["init_kills"])
            time.sleep(1000)
        os._exit(0)
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    time.sleep(ORDER.get("lives", 1000) if ORDER["between"] == "process" else 1000)
    os._exit(0)


def main():
    if ORDER.get("name"):
        LIBC.prctl(PR_SET_NAME, ORDER["name"].encode(), 0, 0, 0)
    if ORDER.get("between"):
        starts_another()
    if ORDER.get("cgroup"):
        with open(ORDER["cgroup"] + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    if ORDER.get("score"):
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(ORDER["score"]))
    if ORDER.get("pdeath"):
        LIBC.prctl(PR_SET_PDEATHSIG, ORDER["pdeath"], 0, 0, 0)
    dispose()
    spread()
    held = hold(ORDER["holds"]) if ORDER.get("holds") else None
    if ORDER.get("in_exec"):
        execs()
    say()
    if ORDER.get("timer"):
        timer(ORDER["timer"], ORDER["after"])
    obey()
    return held


def obey():
    order = sys.stdin.readline()
    while order:
        ORDER.update(json.loads(order))
        if ORDER.pop("leave", None):
            # The first thread ends, without a word to Python. Another goes on.
            threading.Thread(target=obey).start()
            LIBC.syscall(EXIT, 0)
        if ORDER.get("end"):
            end()
        order = sys.stdin.readline()
    time.sleep(1000)


if __name__ == "__main__":
    main()
