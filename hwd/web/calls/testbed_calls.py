"""TestbedCalls: the reload of the testbed file."""

from collections.abc import Coroutine
from typing import Any, Final, Protocol

from hwd.model.bodies import ReloadBody
from hwd.model.reload import ReloadReport
from hwd.model.request import Caller
from hwd.records.finish import to_its_end
from hwd.web.calls.call import Call, Calls
from hwd_agents.wire.access import OPERATOR


class Reloads(Protocol):
    """Takes a changed testbed file while the daemon runs."""

    def reload(self, body: ReloadBody, caller: Caller | None) -> Coroutine[Any, Any, ReloadReport]: ...


class TestbedCalls:
    """The calls about the testbed file."""

    def __init__(self, reloads: Reloads) -> None:
        self._reloads = reloads

    async def reload(self, body: ReloadBody, caller: Caller | None = None) -> ReloadReport:
        """Take the changed testbed file, whole or not at all; with `dry_run` only say what it would change.

        Answers after those who hold what changes are done. It goes on when the caller goes away.
        """
        if body.dry_run:
            return await self._reloads.reload(body, caller)
        return await to_its_end(self._reloads.reload(body, caller), name="hwd:testbed/reload")


TESTBED: Final = Calls(
    part="testbed",
    tag="testbed",
    rows=(Call(method="POST", path="/reload", handler=TestbedCalls.reload, access=OPERATOR, needs_body=False),),
)
