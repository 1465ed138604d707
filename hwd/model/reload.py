"""The report of a reload of the testbed file: what it did, or would do."""

from msgspec import field
from typing_extensions import override

from hwd.model.api_value import ApiValue


class TestbedChangeReport(ApiValue, frozen=True, kw_only=True):
    """One difference of the file. `kind`: added, removed or changed. `what`: what of `subject` differs.

    `ports`: those that nobody may hold while it is taken. `obstacle`: why a running daemon cannot take it; empty where
    it can.
    """

    __test__ = False

    kind: str
    subject: str
    what: str
    ports: list[str]
    obstacle: str

    @override
    def __str__(self) -> str:
        return f"{self.subject} {self.kind}{f': {self.what}' if self.what else ''}"


class ReloadReport(ApiValue, frozen=True, kw_only=True):
    """The report of what a reload changed, or with `done` false what it would change. `hash`: of the file's text.

    `hides`: links that are lit and that the new file knows no fibres for: their crossconnects stay, in words.
    `held`: who holds ports that it touches now, in words. `drained_s`: how long it waited for them.
    `remarks`: what did not go as it should after it was taken.
    """

    testbed: str
    hash: str
    done: bool
    drained_s: float
    changes: list[TestbedChangeReport]
    held: list[str]
    remarks: list[str] = field(default_factory=list)
    hides: list[str] = field(default_factory=list)
