"""Reads the active warnings of raytrace from the file of `raytrace publish --json FILE`."""

import json
import os


class Warnings:
    def __init__(self, path):
        self.path, self.file, self.rest, self.open_warnings = path, None, "", {}
        self._open(at_end=True)

    def _open(self, at_end=False):
        """Opens the file at its end or at its start.

        A warning from before this process started concerns another process, so the first open is
        at the end. A new file after logrotate is read from its start.
        """
        if os.path.exists(self.path):
            self.file = open(self.path)
            self.file.seek(0, os.SEEK_END if at_end else os.SEEK_SET)

    def _lines(self):
        if self.file is None:
            self._open()
        new = self.file.read() if self.file else ""
        if not new and self.file and os.path.exists(self.path) and os.stat(self.path).st_ino != os.fstat(self.file.fileno()).st_ino:
            self._open()
            new = self.file.read()
        *lines, self.rest = (self.rest + new).split("\n")
        return lines

    def active(self):
        """Returns the active warnings: one for each limit that will soon be reached.

        The list is empty, and so false, if there are none.
        """
        for line in map(json.loads, self._lines()):
            if line["event.name"] == "raytrace.warning":
                limit = (line["host.name"], line["raytrace.killer"], line.get("raytrace.limit.cgroup"))
                self.open_warnings.pop(limit, None)
                if not line["raytrace.warning.over"]:
                    self.open_warnings[limit] = line
        return list(self.open_warnings.values())
