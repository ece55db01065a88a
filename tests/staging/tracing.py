"""The kernel's own trace of signals, OOM kills and ends, in a tracing instance of its own."""

import contextlib
import ctypes
import os
import re
import tempfile
from collections import namedtuple

LIBC = ctypes.CDLL(None, use_errno=True)
# SIGPIPE, SIGCHLD, SIGURG, SIGPROF, SIGWINCH and SIGIO come by the thousand, and end nothing here.
SIGNALS = " && ".join(f"sig != {number}" for number in (13, 17, 23, 27, 28, 29))
EVENTS = {
    # Delivered, or delivered without its information: what is ignored ends nothing.
    "signal/signal_generate": f"{SIGNALS} && (result == 0 || result == 4)",
    "signal/signal_deliver": SIGNALS,
    "oom/mark_victim": None,
    "sched/sched_process_exit": None,
}
# KiB for each processor: some 80,000 events.
ROOM_KIB = 8192

# `tid` and `tgid` are those of the running task. `fields` are texts.
Event = namedtuple("Event", "time name tid tgid comm fields")
LINE = re.compile(r"^\s*(.*)-(\d+)\s+\(\s*(\d+|-+)\)\s+\[\d+\]\s+\S+\s+([\d.]+): (\w+): (.*)$")
FIELD = re.compile(r"([\w-]+)[=:](\S*)")


class Tracing:
    """Traces until it is closed, without a change to any other user of tracefs."""

    def __init__(self):
        self.mount = tempfile.mkdtemp(prefix="raytrace-tracefs-")
        if LIBC.mount(b"none", self.mount.encode(), b"tracefs", 0, None) != 0:
            error = os.strerror(ctypes.get_errno())
            os.rmdir(self.mount)
            raise OSError(f"tracefs cannot be mounted: {error}")
        self.folder = os.path.join(self.mount, "instances", f"raytrace-{os.getpid()}")
        try:
            os.mkdir(self.folder)
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self):
        for name, value in (
            ("buffer_size_kb", ROOM_KIB), ("trace_clock", "boot"), ("options/overwrite", 0), ("options/record-tgid", 1),
        ):
            self._write(name, value)
        for name, wanted in EVENTS.items():
            if wanted:
                self._write(f"events/{name}/filter", wanted)
            self._write(f"events/{name}/enable", 1)

    def _write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))

    def _read(self, name):
        with open(os.path.join(self.folder, name), errors="replace") as file:
            return file.read()

    def lost(self):
        """Returns how many events found no room."""
        found = 0
        for cpu in os.listdir(os.path.join(self.folder, "per_cpu")):
            rows = dict(row.split(":", 1) for row in self._read(f"per_cpu/{cpu}/stats").splitlines() if ":" in row)
            found += int(rows["overrun"]) + int(rows["dropped events"])
        return found

    def text(self):
        self._write("tracing_on", 0)
        return self._read("trace")

    def close(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)
        LIBC.umount(self.mount.encode())
        os.rmdir(self.mount)


def events(text):
    """Returns the events of such a text in their order."""
    found = []
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        matched = LINE.match(line)
        if not matched:
            raise ValueError(f"no line of a trace: {line}")
        comm, tid, tgid, time, name, fields = matched.groups()
        tgid = int(tgid) if tgid.isdigit() else None
        found.append(Event(float(time), name, int(tid), tgid, comm.strip(), dict(FIELD.findall(fields))))
    return found
