"""Transfers in flight, in the answers of the API."""

from typing_extensions import override

from hwd.model.answers.answer import Answer


class TransferStatus(Answer, frozen=True, kw_only=True):
    """What a process of a host says that it is sending now, since `since_s`, for another `left_s` at most.

    `drained_by`: the reconfiguration that waits for its end. `transfer` empty: the host has not said since the start of
    the daemon whether it is sending; until it does, or `left_s` is over, its ports count as in use.
    """

    transfer: str
    host: str
    process: str
    phase: str
    ports: list[str]
    since_s: float
    left_s: float
    drained_by: str | None = None

    @override
    def __str__(self) -> str:
        ports = ", ".join(self.ports)
        if not self.transfer:
            return f"{self.host} has not said yet whether it sends over {ports}; at rest in {self.left_s:.0f} s at most"
        waits = f"; reconfiguration {self.drained_by} waits for its end" if self.drained_by else ""
        return (
            f"transfer {self.transfer} of {self.process} on {ports}, phase {self.phase}: since {self.since_s:.1f} s, "
            f"for another {self.left_s:.1f} s at most{waits}"
        )
