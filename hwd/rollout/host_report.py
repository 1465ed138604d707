"""Progress of a roll-out, and the report of each host."""

from collections.abc import Callable
from enum import StrEnum

import msgspec
from typing_extensions import override

from hwd_drivers.core.errors import HwdError


class Result(StrEnum):
    """The result for one host."""

    DONE = "done"
    """The host is as requested."""
    ALREADY = "already"
    """The host was as requested before; nothing was changed."""
    ROLLED_BACK = "rolled-back"
    """The rollout failed, and the earlier agent runs again."""
    FAILED = "failed"
    """The rollout failed."""
    CUT_OFF = "cut-off"
    """The operator interrupted it."""
    UNTOUCHED = "untouched"
    """The rollout of the host was not started."""


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: in words. `why`: the cause, where it is not done; in text output the accompanying error says it."""

    host: str
    result: Result
    version: str | None = None
    changed: tuple[str, ...] = ()
    why: str = ""

    @override
    def __str__(self) -> str:
        version = "" if self.version is None else f" {self.version}"
        what = f": {', '.join(self.changed)}" if self.changed else ""
        return f"{self.host}{version} {self.result}{what}"


class CutOffError(HwdError):
    """The operator interrupted it with Ctrl-C."""

    exit_status = 130
    title = "cut off"

    def __init__(self, host: str, remedy: str) -> None:
        super().__init__(f"{host}: was interrupted; the step in progress there is completed. {remedy}")


Progress = Callable[[str, str], None]
"""`progress(host, words)`."""
