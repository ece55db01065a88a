"""Compares a report with the kernel's own trace of random acts.

    random_truth.py FOLDER REPORT

Nothing that is proven may differ from the trace. Prints each difference, and ends with 1 if there is one. A killer that
is inferred and wrong is printed too, and is no failure: the trace shows who acted, and a caught signal leaves open what
its handler did.
"""

import json
import math
import os
import re
import sqlite3
import sys
import time
from collections import defaultdict
from datetime import datetime

from tracing import events

KERNEL, TIMER = 128, -2
KILL, TERM = 9, 15
# Signals that ask a process to end, so that one that caught them may have ended for that.
ASK = {1, 2, 3, 15}
# Signals whose default action writes a core dump, and those whose default action does not end a
# process (signal(7)).
DUMPS = {3, 4, 5, 6, 7, 8, 11, 24, 25, 31}
HARMLESS = {17, 18, 19, 20, 21, 22, 23, 28}
# How a sender's path is called in a report. What a tracer puts in has no sending that is traced.
MECHANISMS = {
    "kill": {"kill"}, "tgkill": {"tgkill"}, "pidfd": {"pidfd"}, "queue": {"sigqueue"}, "thread_queue": {"sigqueue"},
    "int80": {"kill"},
}
OOM_LINE = re.compile(r"oom-kill:constraint=(\w+),.*?oom_memcg=(\S*?),task_memcg=.*?,task=.*?,pid=(\d+),")
OOM = {"kernel-oom-memcg", "kernel-oom-global", "kernel-oom"}


class Trace:
    """The trace, by process."""

    def __init__(self, text):
        self.events = events(text)
        self.tgids = {event.tid: event.tgid for event in self.events if event.tgid}
        self.sent, self.delivered, self.marked = defaultdict(list), defaultdict(list), {}
        for event in self.events:
            if event.name == "signal_generate":
                self.sent[self.process(int(event.fields["pid"]))].append(event)
            elif event.name == "signal_deliver":
                self.delivered[self.process(event.tid)].append(event)
            elif event.name == "mark_victim":
                self.marked.setdefault(self.process(int(event.fields["pid"])), event)

    def process(self, tid):
        return self.tgids.get(tid, tid)

    def handled(self, pid, number):
        """Returns the deliveries of this signal to a handler."""
        return [
            event for event in self.delivered[pid]
            if int(event.fields["sig"]) == number and int(event.fields["sa_handler"], 16) > 1
        ]

    def queued(self, pid, number):
        """Returns what was sent and not ignored: the result is 0 (delivered) or 4 (its information was lost)."""
        return [
            event for event in self.sent[pid]
            if int(event.fields["sig"]) == number and event.fields["res"] in ("0", "4")
        ]

    def fatal(self, pid):
        """Returns the first delivery with the default action to end the process."""
        return next((
            event for event in self.delivered[pid]
            if int(event.fields["sa_handler"], 16) == 0 and int(event.fields["sig"]) not in HARMLESS
        ), None)

    def killed_by(self, pid, number):
        """Returns the sending that ended the process: the one that was delivered with the default action, else the
        first that no handler took."""
        queued = self.queued(pid, number)
        fatal = self.fatal(pid)
        # A thread that ends with the others is delivered a SIGKILL that nobody sent.
        if fatal and number != KILL and int(fatal.fields["sig"]) == number:
            sent = [event for event in queued if event.time <= fatal.time and event.fields["code"] == fatal.fields["code"]]
            if sent:
                return sent[0]
        for handled in self.handled(pid, number):
            before = [event for event in queued if event.time <= handled.time]
            if before:
                queued.remove(before[-1])
        return queued[0] if queued else None


class Truth:
    """What the trace and the plan say of one victim."""

    def __init__(self, trace, row, victim, log, started):
        self.row, self.pid, self.log = row, victim["pid"], log
        self.act, self.status = row["act"], victim.get("status")
        self.killers, self.sender, self.mechanisms, self.group = set(), None, None, None
        self.signal = self.status & 0x7F if self.status is not None else None
        self.code = self.status >> 8 if self.status is not None and not self.signal else None
        self.caught, self.caught_before = self.taken(trace, started, math.inf), self.taken(trace, 0, started)
        if self.signal:
            self.by_signal(trace)
        elif self.status is not None:
            self.killers = {"exit"}

    def taken(self, trace, begin, end):
        """Returns the signals that ask to end, and that the process took in this time, by a handler or by waiting."""
        waits = {int(number) for number, how in self.act["order"].get("signals", {}).items() if how == "waited"}
        found = {number for number in ASK for event in trace.handled(self.pid, number) if begin <= event.time < end}
        return sorted(found | {
            number for number in ASK & waits for event in trace.queued(self.pid, number) if begin <= event.time < end
        })

    def by_signal(self, trace):
        signal, fatal = self.signal, trace.fatal(self.pid)
        if signal == KILL and fatal and int(fatal.fields["sig"]) in DUMPS:
            # It was writing its core dump, which a SIGKILL cuts short. The status is that of the
            # SIGKILL.
            signal = int(fatal.fields["sig"])
        sent = trace.killed_by(self.pid, signal)
        if sent is None:
            # A tracer put it in. Who the tracer is, is all that can be said.
            self.killers = {"signal"}
            self.sender = {send["sender"] for send in self.row["sends"] if send["path"] == "put_in"}
            return
        code, by = int(sent.fields["code"]), sent.tgid
        # A process that is running while a timer expires may have been about to send another signal.
        sends = [send for send in self.row["sends"] if send["sender"] == by]
        plan = [send["path"] for send in sends if send.get("signal", signal) == signal]
        order = self.act["order"]
        self.sender = {by}
        mark = trace.marked.get(self.pid)
        if signal == KILL and code == KERNEL and mark and mark.tid == sent.tid:
            self.killers, self.sender = OOM, None
            self.groups()
        elif code == TIMER and not plan:
            # Whichever process runs when the timer expires.
            self.killers, self.sender = {"kernel-other"}, None
        elif code == KERNEL or code > 0:
            self.killers, self.sender = {"crash"} if by == self.pid and signal != KILL else {"kernel-other"}, None
        elif by == self.pid:
            self.killers, self.sender = {"crash"}, None
            if trace.handled(self.pid, signal):
                # It was sent again by its handler: the first sender is meant, and that is never proven.
                self.killers = set()
        elif order.get("pdeath") == signal and by == self.row.get("parent") and not plan:
            self.killers, self.mechanisms = {"signal", "ray-collapse", "ray-intended", "kernel-other"}, {"parent-death"}
        else:
            self.killers = {"signal"}
            self.mechanisms = set().union(*(MECHANISMS.get(path, set()) for path in plan)) or None

    def groups(self):
        """The group whose limit was hit, by the kernel's line, or the only one with a limit."""
        limits = {path: limit for path, limit in self.row.get("groups", []) if limit}
        told = next((path for _, path, pid in OOM_LINE.findall(self.log) if int(pid) == self.pid), None)
        if told in limits:
            self.group = (told, limits[told])
        elif len(limits) == 1:
            self.group = next(iter(limits.items()))

    def wrong(self, death):
        """Returns what is proven and differs, and what is inferred and differs."""
        verdict, proven, inferred = death["verdict"], [], []
        found = proven if verdict["certainty"] == "proven" else inferred
        if self.status is None:
            return [], []
        if (death["signal"] or 0, death["exit_code"] or 0) != (self.signal, self.code or 0):
            found.append(f"status: signal {death['signal']}, code {death['exit_code']}")
        killer = verdict["killer"]
        if killer not in self.killers and killer != "unknown":
            if not (found is inferred and self.may_be_told(killer)):
                found.append(f"killer {killer}, not {sorted(self.killers)}")
        elif killer != "unknown":
            self.by_sender(death, found)
            if found is proven and killer == "exit":
                self.by_what_was_caught(proven, inferred)
        oom = death.get("oom")
        if oom and self.group and killer in OOM and oom.get("cgroup"):
            of_reason = proven if verdict["reason_certainty"] == "proven" else inferred
            if (oom["cgroup"], oom["limit_bytes"]) != self.group:
                of_reason.append(f"cgroup {oom['cgroup']} with {oom['limit_bytes']}, not {self.group}")
        return proven, inferred

    def by_what_was_caught(self, proven, inferred):
        """After a signal that asks to end, an own end is not proven. What was caught before the recorder started is
        known only by a code that names it."""
        # A driver of Ray's ends with 15 after a SIGTERM. Other small codes name no signal.
        names = self.code if self.code == TERM else self.code - 128
        if self.caught or names in self.caught_before:
            proven.append(f"it had caught {self.caught or self.caught_before}")
        elif self.caught_before:
            inferred.append(f"it had caught {self.caught_before} before the recorder started")

    def by_sender(self, death, found):
        sender = death.get("sender") or {}
        if self.sender and sender.get("pid") not in self.sender:
            found.append(f"sender {sender.get('pid')}, not {self.sender}")
        elif self.mechanisms and sender.get("mechanism") not in self.mechanisms:
            found.append(f"mechanism {sender.get('mechanism')}, not {self.mechanisms}")

    def may_be_told(self, killer):
        """Whether an inferred verdict may name this killer: that of a signal whose handler ended the process."""
        how = set(self.act["order"].get("signals", {}).values())
        ends = how & {"exits", "again"} or "waited" in how and self.act["order"].get("taken") == "exits"
        return bool((self.caught or self.caught_before) and ends) and killer == "signal"


def unseen(trace, death):
    """Returns what is proven of a process that was not staged, and is not in the trace."""
    verdict, pid = death["verdict"], death["pid"]
    if verdict["certainty"] != "proven" or death["signal"] is None:
        return None
    if verdict["killer"] in OOM and pid not in trace.marked:
        return "an OOM kill that the kernel did not mark"
    sender = (death.get("sender") or {}).get("pid")
    if verdict["killer"] == "signal" and sender not in {event.tgid for event in trace.queued(pid, death["signal"])}:
        return f"a signal that {sender} did not send"
    return None


def boot_time(text):
    """Returns the seconds since boot of a time of day."""
    wall = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    return wall - time.time() + time.clock_gettime(time.CLOCK_BOOTTIME)


def first_seen(folder):
    """Returns when the recorder found each process, in seconds since boot."""
    recording = sqlite3.connect(f"file:{os.path.join(folder, 'a.raytrace')}?mode=ro", uri=True)
    rows = recording.execute("SELECT pid, min(time) FROM events WHERE kind = 'process' GROUP BY pid")
    return {pid: nanoseconds / 1e9 for pid, nanoseconds in rows}


def read(folder, name):
    with open(os.path.join(folder, name), errors="replace") as file:
        return file.read()


def compare(folder, report):
    """Returns how many deaths were compared, what is wrong, and what is only inferred and wrong."""
    trace, log = Trace(read(folder, "trace.txt")), read(folder, "kernel.log")
    started = boot_time(report["recordings"][0]["started"])
    known = first_seen(folder)
    rows = [json.loads(line) for line in read(folder, "acts.jsonl").splitlines()]
    deaths = defaultdict(list)
    for death in report["deaths"]:
        deaths[death["pid"]].append(death)
    count, wrong, notes, staged = 0, [], [], set()
    for row in rows:
        if row.get("problem"):
            notes.append(f"not staged: {row['problem']} | {json.dumps(row['act'])}")
        for victim in row.get("victims", []):
            staged.add(victim["pid"])
            count += 1
            # What was sent before it was found is from before the recorder, for this process.
            since = max(started, known.get(victim["pid"], 0)) if row["early"] else started
            truth = Truth(trace, row, victim, log, since)
            of = f"seed {row['seed']} act {row['act']['number']}, pid {victim['pid']}"
            for death in deaths[victim["pid"]]:
                proven, inferred = truth.wrong(death)
                said = f"{death['verdict']['summary']} | {json.dumps(row)}"
                wrong += [f"{of}: PROVEN {what} | {said}" for what in proven]
                notes += [f"{of}: inferred {what} | {said}" for what in inferred]
            # It may have ended before the recorder started.
            if len(deaths[victim["pid"]]) != 1 and not (row["early"] and not deaths[victim["pid"]]):
                wrong.append(f"{of}: {len(deaths[victim['pid']])} deaths, not 1 | {json.dumps(row)}")
    for pid, found in deaths.items():
        for what in (unseen(trace, death) for death in found if pid not in staged):
            if what:
                wrong.append(f"pid {pid}: PROVEN {what} | {found[0]['verdict']['summary']}")
    return count, wrong, notes


def main():
    folder, report = sys.argv[1:]
    with open(report) as file:
        count, wrong, notes = compare(folder, json.load(file))
    for line in notes:
        print(f"note: {line}")
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"{count} acts compared, {len(wrong)} wrong, {len(notes)} notes")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
