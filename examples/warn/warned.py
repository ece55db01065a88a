"""The active warnings of raytrace: reads what is new in the file that `raytrace publish --json FILE` writes."""

import json
import os


class Warnings:
    def __init__(self, path):
        self.path, self.file, self.rest, self.open_warnings = path, None, "", {}
        self._open(at_end=True)

    def _open(self, at_end=False):
        """A warning that came before this process did is about another one. What logrotate began anew is read from its start."""
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
        """The active warnings, one for each limit that is about to be met; empty, and so false, where there is none."""
        for line in map(json.loads, self._lines()):
            if line["event.name"] == "raytrace.warning":
                limit = (line["host.name"], line["raytrace.killer"], line.get("raytrace.limit.cgroup"))
                self.open_warnings.pop(limit, None)
                if not line["raytrace.warning.over"]:
                    self.open_warnings[limit] = line
        return list(self.open_warnings.values())
