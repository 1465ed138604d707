"""Progress of a roll-out, and the report of each host."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

import msgspec
from typing_extensions import override

from hwd.model.testbed import Host
from hwd_drivers.core.errors import FailedError, HwdError


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
    """The report of a rollout or removal on one host; `changed`: in words. `why`: the cause, where it is not done; in
    text output the accompanying error says it.
    """

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


class RolledBackError(FailedError):
    """The rollout failed, and the earlier agent, of this `version`, runs again."""

    def __init__(self, message: str, version: str) -> None:
        super().__init__(message)
        self.version = version


Progress = Callable[[str, str], None]
"""`progress(host, words)`."""


async def in_turn(
    hosts: Sequence[Host], verb: str, work: Callable[[Host], Awaitable[HostReport]]
) -> tuple[tuple[HostReport, ...], HwdError | None]:
    """Do the work on one host after another until the first failure. Returns a report for each host, and the error that
    stopped it. `verb`: of `hwd agent`, for the remedy.
    """
    reports: list[HostReport] = []
    error: HwdError | None = None
    for host in hosts:
        result, version = Result.UNTOUCHED, None
        if error is None:
            try:
                reports.append(await work(host))
                continue
            except RolledBackError as failure:
                error, result, version = failure, Result.ROLLED_BACK, failure.version
            except HwdError as failure:
                error, result = failure, Result.FAILED
            except asyncio.CancelledError:
                error = CutOffError(host.name, f"`hwd agent {verb} {host.name}` finishes it")
                result = Result.CUT_OFF
        why = "" if result is Result.UNTOUCHED else str(error)
        reports.append(HostReport(host=host.name, result=result, version=version, why=why))
    return tuple(reports), error
