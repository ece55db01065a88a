"""A subprocess that ends in the way that its first argument names.

The other arguments are the folder of the Roll, and the label.
"""

import ctypes
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time

from truth import Roll

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
GETPPID = 110
RT_SIGQUEUEINFO = 129
CLONE_NEWPID = 0x20000000
USERFAULTFD, UFFD_USER_MODE_ONLY, UFFD_FEATURE_POISON = 323, 1, 1 << 14
UFFDIO_API, UFFDIO_REGISTER, UFFDIO_POISON = 0xC018AA3F, 0xC020AA00, 0xC020AA08


def sleep():
    time.sleep(600)


def term_caught():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(600)


def term_caught_late():
    """Saves for longer after a SIGTERM than any tool waits, as a checkpoint may take."""

    def saves(*_):
        time.sleep(18)
        os._exit(143)

    signal.signal(signal.SIGTERM, saves)
    while True:
        time.sleep(600)


def term_blocked(end):
    """Ends while a SIGTERM is pending that it blocks: nobody takes it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while signal.SIGTERM not in signal.sigpending():
        time.sleep(0.01)
    time.sleep(0.2)
    if end == "abort":
        os.abort()
    os._exit(3)


def term_waited_for():
    """Takes a SIGTERM that it blocks by sigwait(3)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    sys.exit(0)


def cuda_out_of_memory():
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB")


def cpu_limit():
    resource.setrlimit(resource.RLIMIT_CPU, (1, 10))
    while True:
        pass


def hard_cpu_limit():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def alarm():
    signal.alarm(1)
    time.sleep(600)


def alarm_while_stopped():
    """Stops itself. Its timer expires meanwhile, and the signal kills it when it continues."""
    signal.alarm(1)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


def seccomp():
    """Installs a filter that kills the process when it calls getppid(2)."""
    load, jump_equal, ret = 0x20, 0x15, 0x06
    kill_process, allow = 0x80000000, 0x7FFF0000
    program = b"".join(
        struct.pack("HBBI", *row)
        for row in [(load, 0, 0, 0), (jump_equal, 0, 1, GETPPID), (ret, 0, 0, kill_process), (ret, 0, 0, allow)]
    )
    code = ctypes.create_string_buffer(program, len(program))
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(code)))
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0)
    LIBC.syscall(GETPPID)


def start_mourner():
    """Starts a child that gets SIGKILL when this process ends."""
    subprocess.Popen(
        [sys.executable, "-S", __file__, "sleep", ROLL.folder, LABEL + "/child"],
        preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )


def mourns():
    """Starts a child that gets SIGKILL when this process ends, then sleeps."""
    start_mourner()
    time.sleep(600)


def thread_mourns():
    """Starts a child, by a thread, that gets SIGKILL when that thread ends. Then it lives on."""

    def starts():
        start_mourner()
        ROLL.wait(LABEL + "/child")
        time.sleep(0.8)

    thread = threading.Thread(target=starts)
    thread.start()
    thread.join()
    time.sleep(7)
    os._exit(0)


def kills_itself():
    """Starts a child that gets SIGKILL when this process ends, then kills itself."""
    start_mourner()
    ROLL.wait(LABEL + "/child")
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def ignores():
    """Ignores SIGXFSZ, as Python does by default, and exits 0.2 s after a SIGTERM."""

    def exits(*_):
        time.sleep(0.2)
        sys.exit(3)

    signal.signal(signal.SIGTERM, exits)
    while True:
        time.sleep(600)


def drops():
    """Starts the init of a pid namespace.

    The init unblocks a pending signal. The kernel then drops the signal, because the init has no
    handler for it.
    """
    if LIBC.unshare(CLONE_NEWPID) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        time.sleep(600)
    ROLL.announce(LABEL + "/init", child)
    os.waitpid(child, 0)


def poisons():
    """Poisons a page of its own and reads it, which looks like a hardware memory error."""
    import fcntl
    import mmap

    pages = LIBC.syscall(USERFAULTFD, os.O_CLOEXEC | UFFD_USER_MODE_ONLY)
    fcntl.ioctl(pages, UFFDIO_API, bytearray(struct.pack("QQQ", 0xAA, UFFD_FEATURE_POISON, 0)))
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    fcntl.ioctl(pages, UFFDIO_REGISTER, bytearray(struct.pack("QQQQ", address, 4096, 1, 0)))
    fcntl.ioctl(pages, UFFDIO_POISON, bytearray(struct.pack("QQQq", address, 4096, 0, 0)))
    return page[0]


def namespace():
    """Runs as init of a pid namespace. Starts a child, then waits to be killed."""
    os.execvp("sh", ["sh", "-c", "sleep 600 & sleep 600"])


def execs():
    os.execvp("sh", ["sh", "-c", "exec sh -c 'exit 5'"])


def eats():
    """Waits for its parent, then allocates memory until the kernel kills it at a cgroup's limit."""
    sys.stdin.readline()
    kept = []
    while True:
        kept.append(b"x" * (4 << 20))


def bus_error():
    import mmap

    path = os.path.join(ROLL.folder, LABEL.replace("/", "_") + ".file")
    with open(path, "wb+") as file:
        file.truncate(8192)
        mapped = mmap.mmap(file.fileno(), 8192)
        file.truncate(0)
        mapped[0] = 1


def queues(code):
    """Sends SIGKILL to itself, with this `si_code`."""
    info = (ctypes.c_int * 32)(signal.SIGKILL, 0, int(code))
    LIBC.syscall(RT_SIGQUEUEINFO, os.getpid(), signal.SIGKILL, ctypes.byref(info))
    time.sleep(600)


class SignalEvent(ctypes.Structure):
    """struct sigevent. If `notify` is SIGEV_SIGNAL (0), the kernel sends the signal `number`."""

    _fields_ = [("value", ctypes.c_void_p), ("number", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]


def own_timer():
    """Gets SIGKILL from timer_create(2)."""
    event, timer = SignalEvent(None, signal.SIGKILL, 0), ctypes.c_void_p()
    librt = ctypes.CDLL("librt.so.1", use_errno=True)
    if librt.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)) != 0:
        raise OSError(ctypes.get_errno(), "timer_create")
    librt.timer_settime(timer, 0, struct.pack("qqqq", 0, 0, 0, 50_000_000), None)
    time.sleep(600)


def message():
    """Gets SIGKILL from mq_notify(3), for a message that it sends itself."""
    librt = ctypes.CDLL("librt.so.1", use_errno=True)
    name = f"/raytrace-{os.getpid()}".encode()
    queue = librt.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)
    librt.mq_unlink(name)
    event = SignalEvent(None, signal.SIGKILL, 0)
    if queue < 0 or librt.mq_notify(queue, ctypes.byref(event)) != 0:
        raise OSError(ctypes.get_errno(), "mq_notify")
    librt.mq_send(queue, b"x", 1, 0)
    time.sleep(600)


def file_limit():
    """Exceeds the file size limit. Python ignores SIGXFSZ by default. Most programs do not."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with open(os.path.join(ROLL.folder, LABEL.replace("/", "_") + ".file"), "wb") as file:
        file.write(b"x" * 8192)


def leaves_a_stopped_one():
    """Leaves two children when it exits. One of them is stopped.

    This process has its own session. The children have their own process group in it.
    """
    os.setsid()
    children = []
    for name in ("/running", "/stopped"):
        child = os.fork()
        if child == 0:
            os.setpgid(0, children[0] if children else 0)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            ROLL.announce(LABEL + name)
            time.sleep(600)
        ROLL.wait(LABEL + name)
        children.append(child)
    time.sleep(0.5)
    os.kill(children[1], signal.SIGSTOP)
    time.sleep(0.3)
    os._exit(0)


PTRACE_CONT, PTRACE_ATTACH, PTRACE_SYSCALL = 7, 16, 24


def puts_in():
    """Kills a child with SIGINT, which it injects at a system call, as `strace --inject` does."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ROLL.announce(LABEL + "/tracee")
        while True:
            time.sleep(0.1)
    ROLL.wait(LABEL + "/tracee")
    time.sleep(0.5)
    for request, data in ((PTRACE_ATTACH, 0), (PTRACE_SYSCALL, 0), (PTRACE_CONT, signal.SIGINT)):
        if LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(child), None, ctypes.c_long(data)) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request}")
        _, status = os.waitpid(child, 0)
    while os.WIFSTOPPED(status):
        LIBC.ptrace(ctypes.c_long(PTRACE_CONT), ctypes.c_long(child), None, ctypes.c_long(os.WSTOPSIG(status)))
        _, status = os.waitpid(child, 0)


if __name__ == "__main__":
    ROLL, LABEL = Roll(sys.argv[2]), sys.argv[3]
    ROLL.announce(LABEL)
    # The staging code must read the pid before this process ends.
    time.sleep(0.3)
    act, *details = sys.argv[1].split(":")
    globals()[act](*details)
