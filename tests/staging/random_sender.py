"""Sends signals in the way that it is told, by any path that Linux has for it.

It reads orders as JSON lines from standard input, and answers each with a line. An order has a path, a pid, a thread,
a signal, and the time (CLOCK_MONOTONIC) at which to act. `leaderless` as the first argument ends the first thread
before: the process that sends is then a zombie by its /proc entry.
"""

import ctypes
import json
import mmap
import os
import signal
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
TGKILL, QUEUE, TGQUEUE, PIDFD_OPEN, PIDFD_SEND, PTRACE, EXIT = 234, 129, 297, 434, 424, 101, 60
PTRACE_CONT, PTRACE_KILL, PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 8, 16, 0x4206, 0x4207
PTRACE_O_EXITKILL = 0x100000
# kill(2) by the 32-bit entry: its number there is 37.
INT80 = bytes.fromhex("53b82500000089fb89f1cd805bc3")
WALL = 0x40000000


def checked(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def call(number, *arguments):
    arguments = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return checked(LIBC.syscall(number, *arguments), f"system call {number}")


def siginfo(number, code):
    info = (ctypes.c_int * 32)()
    info[0], info[2], info[4], info[5] = number, code, 4321, 12345
    return ctypes.byref(info)


def kill(order):
    os.kill(order["pid"], order["signal"])


def tgkill(order):
    call(TGKILL, order["pid"], order["tid"], order["signal"])


def pidfd(order):
    descriptor = call(PIDFD_OPEN, order["pid"], 0)
    call(PIDFD_SEND, descriptor, order["signal"], 0, 0)


def queue(order):
    """The code is made up: any negative one is allowed."""
    call(QUEUE, order["pid"], order["signal"], siginfo(order["signal"], order["code"]))


def thread_queue(order):
    call(TGQUEUE, order["pid"], order["tid"], order["signal"], siginfo(order["signal"], order["code"]))


def int80(order):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(INT80)
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    checked(function(address)(order["pid"], order["signal"]), "int 0x80")


def ptrace(request, pid, data=0):
    result = LIBC.ptrace(ctypes.c_long(request), pid, ctypes.c_void_p(0), ctypes.c_void_p(data))
    return checked(result, f"ptrace {request}")


def put_in(order):
    """Stops the process as its tracer, and continues it with the signal."""
    ptrace(PTRACE_ATTACH, order["pid"])
    os.waitpid(order["pid"], WALL)
    ptrace(PTRACE_CONT, order["pid"], order["signal"])
    ends_or_detaches(order)


def ptrace_kill(order):
    ptrace(PTRACE_ATTACH, order["pid"])
    os.waitpid(order["pid"], WALL)
    ptrace(PTRACE_KILL, order["pid"])
    ends_or_detaches(order)


def ends_or_detaches(order):
    """A tracer is told of the end before the parent is."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        pid, status = os.waitpid(order["pid"], WALL | os.WNOHANG)
        if pid and not os.WIFSTOPPED(status):
            return
        time.sleep(0.01)


def tracer_exit(order):
    """Ends as a tracer that takes what it traces along."""
    ptrace(PTRACE_SEIZE, order["pid"], PTRACE_O_EXITKILL)
    os._exit(0)


PATHS = {function.__name__: function for function in (
    kill, tgkill, pidfd, queue, thread_queue, int80, put_in, ptrace_kill, tracer_exit,
)}


def act(order):
    at = order.get("at") or 0
    while time.monotonic() < at:
        pass
    try:
        PATHS[order["path"]](order)
    except (ProcessLookupError, ChildProcessError):
        return "gone"
    except OSError as error:
        return str(error)
    return "sent"


def serve():
    for line in sys.stdin:
        sys.stdout.write(json.dumps(act(json.loads(line))) + "\n")
        sys.stdout.flush()
    os._exit(0)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.write(json.dumps(os.getpid()) + "\n")
    sys.stdout.flush()
    if "leaderless" in sys.argv:
        threading.Thread(target=serve).start()
        time.sleep(0.05)
        # Ends this thread alone, without a word to Python.
        LIBC.syscall(EXIT, 0)
    serve()


if __name__ == "__main__":
    main()
