"""Selector: the client of jobs; it sets the switches of this host through its agent, and waits for the links.

with Selector() as selector:
    answer = selector.select({"sel0": "in-2"}, within_s=1.0)      # raises when the links are not up by then
    print(answer.ports["eth0"].at_ns - answer.requested_ns)
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hwd_agents.process.agent_client import AgentClient
from hwd_agents.wire import Selected
from hwd_drivers.core.errors import FailedError, NotReadyError, ProtocolError, RefusedError
from hwd_drivers.core.structs import from_json

SOCKET: Final = "/run/hwd-agent/select.sock"
"""The default socket of agents. The command line takes another from HWD_SELECT_SOCKET."""
GRACE_S: Final = 3.0
"""The agent keeps to the limit, except for a switch that failed or is read back late, which has 2 s to report its
state. An agent that is silent for longer counts as gone.
"""
SHOW_WITHIN_S: Final = 5.0


class Selector(AgentClient):
    """The client of a job: it blocks, because the job waits for it. Use one thread each to run several selections at
    once. A selection that has begun goes on to its end when the client is closed.
    """

    NAMED = "switches"
    GONE = " before it answered"

    def __init__(self, path: str = SOCKET) -> None:
        super().__init__(path)

    def ask(
        self, wanted: Mapping[str, str], *, within_s: float = 1.0, epoch: int | Mapping[str, int] | None = None
    ) -> Selected:
        """Set these, and return the agent's answer.

        Raises LinkError when it cannot be reached, DeadlineError when it does not answer.
        """
        self._number += 1
        by_s = time.monotonic() + within_s  # noqa: TID251 - the agent compares it with its own; a job has no Clock
        request = {"set": dict(wanted), "within_s": within_s, "by_s": by_s, "epoch": epoch, "id": self._number}
        line = next(self._answers(request, within_s + GRACE_S))
        try:
            answer = from_json(line, Selected)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._garbled(line, error) from error
        if answer.id is not None and answer.id != self._number:
            self.close()
            raise ProtocolError(f"{self._path}: the answer is to request {answer.id}, not to {self._number}")
        return answer

    def select(
        self, wanted: Mapping[str, str], *, within_s: float = 1.0, epoch: int | Mapping[str, int] | None = None
    ) -> Selected:
        """Set these and return when every link behind them is up.

        Raises RefusedError (nothing was changed), NotReadyError (set, but links are not up), FailedError (a switch was
        not set), and as `ask`.
        """
        answer = self.ask(wanted, within_s=within_s, epoch=epoch)
        check(answer)
        return answer

    def show(self) -> dict[str, Any]:
        """The switches of this host by name: note and crossconnects, as the agent reports them."""
        line = next(self._answers({"show": True}, SHOW_WITHIN_S))
        try:
            return from_json(line, dict[str, dict[str, Any]])["switches"]
        except (msgspec.MsgspecError, RecursionError, KeyError) as error:
            raise self._garbled(line, error) from error

    def _garbled(self, line: bytes, error: Exception) -> ProtocolError:
        self.close()
        return ProtocolError(f"{self._path}: cannot parse the answer: {error}: {line[:200]!r}")


def check(answer: Selected) -> None:
    """Raises, with the answer's reason, for every outcome but `up`."""
    match answer.outcome:
        case "up":
            return
        case "refused":
            raise RefusedError(answer.why)
        case "not-up":
            raise NotReadyError(answer.why)
        case _:
            raise FailedError(answer.why)
