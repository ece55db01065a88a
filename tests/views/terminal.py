"""Tests `raytrace top` and `raytrace record` on a pseudo-terminal.

    terminal.py RAYTRACE RECORDING [RAY_PYTHON STAGING]

pyte emulates the terminal. RECORDING has hostile names. With RAY_PYTHON, workers are killed while
`record` shows its status line.
"""

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pyte

STATUS = re.compile(r"^\d\d:\d\d:\d\d · ")
DEATH = re.compile(r"^\d\d:\d\d:\d\d\.\d{3}Z SIGNAL Sleeper")
CLEAN = (b"\x1b[?1049l", b"\x1b[?25h")


class Terminal:
    """A program on its own terminal."""

    # All programs. They are killed at the end, because a recorder survives its terminal.
    started = []

    def __init__(self, command, columns=80, lines=24, background=False, **environment):
        self.master, self.slave = os.openpty()
        self.size(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.bytes = b""
        slave = self.slave

        def attach():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        if background:
            # A shell with job control, which keeps the terminal for itself.
            command = ["bash", "-mc", '"$@" & sleep 100', "bash", *command]
        self.program = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, preexec_fn=attach, env={**os.environ, "TERM": "xterm-256color", **environment}
        )
        self.started.append(self.program)

    def size(self, columns, lines):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        self.size(columns, lines)
        # If a key arrives together with the signal, crossterm holds it back until the next key.
        self.read(1)

    def read(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                piece = os.read(self.master, 65536)
                self.bytes += piece
                self.stream.feed(piece)

    def lines(self):
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def until(self, condition, seconds=60):
        """Reads until `condition` holds: a text on the screen, or a function of its lines."""
        end = time.monotonic() + seconds
        holds = condition if callable(condition) else lambda lines: any(condition in line for line in lines)
        while not holds(self.lines()):
            assert time.monotonic() < end, f"{condition!r} did not come:\n" + "\n".join(self.lines())
            self.read(0.05)
        return self.lines()

    def press(self, keys, condition=None):
        """Presses keys, then reads until `condition` holds, as `until` does."""
        os.write(self.master, keys.encode())
        # An escape character counts as the Escape key only if no other character follows soon.
        self.read(0.4)
        return self.until(condition) if condition else self.lines()

    def end(self, how=None, seconds=120):
        """Ends the program with a signal or a key. Returns its exit status."""
        if isinstance(how, signal.Signals):
            self.program.send_signal(how)
        elif how:
            os.write(self.master, how.encode())
        end = time.monotonic() + seconds
        while self.program.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self.read(0.05)
        self.read(0.2)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal's modes are not what they were"
        return self.program.returncode


def top_shows_the_recording_and_leaves_the_terminal_clean(raytrace, recording):
    for how in ("q", "\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        for columns, lines in ((80, 24), (140, 40)):
            top = Terminal([raytrace, "top", recording], columns, lines)
            top.until("NEXT KILLER")
            assert top.end(how) == 0, how
            for sequence in CLEAN:
                assert sequence in top.bytes.split(b"NEXT KILLER")[-1], (how, sequence)


def top_takes_keys_and_shows_hostile_names_as_text(raytrace, recording):
    top = Terminal([raytrace, "top", recording], 140, 40)
    top.until("day.raytrace has ended")
    top.press("2/script\r", "</script><script>")
    top.press("\x1b")
    top.press("2/red\r", "\\e[31mred")
    top.press("\r", "cgroup")
    top.press("\x1b")
    top.press("\x1b")
    top.press("3", "other programs and the kernel")
    top.press("\t\r", "PROVEN")
    top.press("\x1b")
    top.resize(60, 20)
    shown = top.press("1", "CLASS OR TASK")
    assert all(len(line) <= 60 for line in shown), shown
    top.resize(30, 8)
    top.press("s", "at least")
    assert top.end("q") == 0
    text = top.bytes.decode()
    assert not any(hidden in text for hidden in "\u202e\u200f") and "\x1b[31mred" not in text


def top_keeps_its_colours_to_itself(raytrace, recording):
    top = Terminal([raytrace, "top", recording], NO_COLOR="1")
    top.until("NEXT KILLER")
    assert top.end("q") == 0
    assert not re.search(rb"\x1b\[[0-9;]*3[0-8][;m]", top.bytes), "a colour in spite of NO_COLOR"


def top_wants_a_terminal(raytrace, recording):
    done = subprocess.run([raytrace, "top", recording], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2 and "stdout is not a terminal" in done.stderr and "\x1b" not in done.stdout, done


def record(raytrace, folder, *arguments):
    return [raytrace, "record", "-o", f"{folder}/{time.monotonic_ns()}.raytrace", *arguments]


def record_has_one_status_line_and_takes_it_away(raytrace, folder):
    nothing = ["--session-dir", folder]
    run = Terminal(record(raytrace, folder, *nothing), 100, 20)
    run.until(lambda lines: STATUS.match(lines[-1] if lines else ""))
    # The status line is drawn again each second.
    run.read(2.5)
    run.resize(60, 20)
    lines = run.until(lambda lines: lines and STATUS.match(lines[-1]) and len(lines[-1]) < 60)
    assert sum(bool(STATUS.match(line)) for line in lines) == 1, lines
    assert run.end(signal.SIGINT) == 0
    lines = run.lines()
    assert not any(STATUS.match(line) for line in lines), lines
    assert any("Next: raytrace report" in line for line in lines), lines


def record_draws_nothing_where_nobody_looks(raytrace, folder):
    nothing = ["--session-dir", folder, "--duration", "3s"]
    done = subprocess.run(record(raytrace, folder, *nothing), capture_output=True, text=True)
    assert done.returncode == 0 and "\x1b" not in done.stderr and "\r" not in done.stderr, done
    for environment, background in (({"TERM": "dumb"}, False), ({}, True)):
        run = Terminal(record(raytrace, folder, *nothing), 100, 20, background, **environment)
        lines = run.until("Next: raytrace report")
        assert not any(STATUS.match(line) for line in lines), lines
        assert b"\x1b[J" not in run.bytes, run.bytes
        run.program.kill()
    run = Terminal(record(raytrace, folder, "--", "sh", "-c", "sleep 2; echo done"), 100, 20)
    lines = run.until("Next: raytrace report")
    assert "done" in lines and b"\x1b[J" not in run.bytes, lines


def deaths_are_told_above_the_status_line(raytrace, folder, python, staging):
    truth = f"{folder}/truth.jsonl"
    late = subprocess.Popen(
        [python, f"{staging}/late.py", "--truth", truth, "--workers", "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    assert late.stdout.readline() == "ready\n"
    with open(truth) as file:
        raylet = next(row for row in map(json.loads, file) if row["kind"] == "cluster")["raylet"]["pid"]
    run = Terminal(record(raytrace, folder, "--raylet-pid", str(raylet)), 120, 40)
    run.until(lambda lines: STATUS.match(lines[-1] if lines else "") and "NEXT KILLER" in lines[-1])
    top = Terminal([raytrace, "top"], 80, 24)
    top.until("Sleeper")
    late.stdin.write("\n")
    late.stdin.flush()
    lines = run.until(lambda lines: "deaths 2" in (lines[-1] if lines else ""))
    print(lines[-1])
    assert sum(bool(DEATH.match(line)) for line in lines) == 2, lines
    assert sum(bool(STATUS.match(line)) for line in lines) == 1, lines
    print("\n".join(top.until(lambda lines: sum("SIGNAL Sleeper" in line for line in lines) >= 2)))
    assert top.end("q") == 0
    assert run.end(signal.SIGINT) == 0
    lines = run.lines()
    assert not any(STATUS.match(line) for line in lines), lines
    assert sum(bool(DEATH.match(line)) for line in lines) == 2, lines
    late.stdin.close()
    late.wait()


def main():
    raytrace, recording, *ray = sys.argv[1:]
    top_shows_the_recording_and_leaves_the_terminal_clean(raytrace, recording)
    top_takes_keys_and_shows_hostile_names_as_text(raytrace, recording)
    top_keeps_its_colours_to_itself(raytrace, recording)
    top_wants_a_terminal(raytrace, recording)
    with tempfile.TemporaryDirectory() as folder:
        record_has_one_status_line_and_takes_it_away(raytrace, folder)
        record_draws_nothing_where_nobody_looks(raytrace, folder)
        if ray:
            deaths_are_told_above_the_status_line(raytrace, folder, *ray)


try:
    main()
finally:
    for program in Terminal.started:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
