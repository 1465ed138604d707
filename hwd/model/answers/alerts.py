"""Alerts in force and the free disk, in the answers of the API."""

from typing import Literal

from typing_extensions import override

from hwd.model.answers.answer import Answer

LITTLE_FREE_BYTES = 1_000_000_000
"""Less than this is little: 10,000 events a second, which 64 agents reached in the benchmark `fleet`, fill it in some
three minutes, at half a kilobyte each. The alert DiskSpaceLow has the same limit."""


class Alert(Answer, frozen=True, kw_only=True):
    """An alert of `dashboards/prometheus/alerts.yml` that is in force by what the daemon knows.

    `subject`: the switch, host, port, link, run, job or limit that it is about. `since_wall_ns`: when its condition
    began, from which its hold time counts, or when the first of its recent events came. `last_wall_ns`: when the last
    of these events came; None for a condition, which lasts.
    """

    name: str
    severity: Literal["critical", "warning", "info"]
    subject: str
    since_wall_ns: int
    last_wall_ns: int | None = None
    summary: str

    @override
    def __str__(self) -> str:
        return f"{self.name} ({self.severity}) {self.subject}: {self.summary}"


class DiskSpace(Answer, frozen=True, kw_only=True):
    """The file system of the data folder, which holds records and journal, as it was read last.

    `free_bytes`: what the daemon may still write. Both sizes are None where they could not be read; `why` says why.
    """

    path: str
    free_bytes: int | None
    total_bytes: int | None
    why: str
    read_wall_ns: int

    @property
    def is_little(self) -> bool:
        return self.free_bytes is not None and self.free_bytes < LITTLE_FREE_BYTES

    @override
    def __str__(self) -> str:
        if self.free_bytes is None or self.total_bytes is None:
            return f"free space of {self.path} is unknown: {self.why}"
        if self.is_little:
            return f"{self.free_bytes / 1e6:.0f} of {self.total_bytes / 1e6:.0f} MB free at {self.path}"
        return f"{self.free_bytes / 1e9:.1f} of {self.total_bytes / 1e9:.1f} GB free at {self.path}"
