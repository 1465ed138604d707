"""What a roll-out says while it goes, and of each host at its end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import HwdError


class Result(StrEnum):
    """What became of one host."""

    DONE = "done"
    """It is as it was asked for."""
    ALREADY = "already"
    """It was so before; nothing was changed."""
    ROLLED_BACK = "rolled-back"
    """It did not come out, and what was before runs again."""
    FAILED = "failed"
    """It did not come out."""
    CUT_OFF = "cut-off"
    """It was ended in the middle by its operator."""
    UNTOUCHED = "untouched"
    """Its turn did not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """`changed`: in words. `why`: what kept it, where it is not done; as text, that is said by the error which goes with it."""

    host: str
    result: Result
    version: str | None = None
    changed: tuple[str, ...] = ()
    why: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)

    def to_data(self) -> dict[str, Json]:
        return {
            "host": self.host,
            "result": self.result.value,
            "version": self.version,
            "changed": list[Json](self.changed),
            "why": self.why,
            **self.data,
        }

    def __str__(self) -> str:
        version = "" if self.version is None else f" {self.version}"
        what = f": {', '.join(self.changed)}" if self.changed else ""
        return f"{self.host}{version} {self.result}{what}"


class CutOffError(HwdError):
    """Ended in the middle by its operator, with Ctrl-C."""

    exit_status = 130
    title = "cut off"

    def __init__(self, host: str, remedy: str) -> None:
        super().__init__(
            f"{host}: was left in the middle of it; what was under way there goes on to the end of its step. {remedy}"
        )


Progress = Callable[[str, str], None]
"""`progress(host, words)`."""
