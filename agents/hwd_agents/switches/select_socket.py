"""SelectSocket: the Unix socket on which jobs of this host set its switches, in JSON lines, one answer per request.

Answers come in the order in which the requests are done.

{"set": {"sel0": "in-2"}, "within_s": 1, "epoch": 7, "id": 3}     answer: `Selected`; see `switches.request.Request`
{"show": true}                                                    answer: {"switches": {name: note, crossconnects}}
"""

import logging

import msgspec

from hwd_agents.process.config import SelectionConfig
from hwd_agents.process.line_socket import Client, LineSocket, Spawn
from hwd_agents.switches.host_switches import Switches
from hwd_agents.switches.request import Request
from hwd_agents.switches.selections import Selections
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_json
from hwd_drivers.transports.dial import Acceptor

log = logging.getLogger(__name__)


class SelectSocket:
    """Listens until cancelled."""

    def __init__(
        self,
        config: SelectionConfig,
        selections: Selections,
        switches: Switches,
        *,
        acceptor: Acceptor,
        clock: Clock,
        spawn: Spawn,
    ) -> None:
        self._place = config.socket
        self._selections = selections
        self._switches = switches
        self._clock = clock
        self._lines = LineSocket(
            config.socket,
            what="selection.socket",
            group=config.group,
            answer=self._answer,
            acceptor=acceptor,
            spawn=spawn,
        )

    async def run(self) -> None:
        """Raises ConfigError when it cannot listen there."""
        log.info("selections: at %s", self._place)
        await self._lines.run()

    async def _answer(self, client: Client, line: bytes) -> bytes:
        requested_ns = self._clock.monotonic_ns()
        try:
            data = msgspec.json.decode(line)
            if isinstance(data, dict) and data.get("show") is True:
                return to_json({"switches": self._switches.show()})
            request = from_plain(data, Request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: nested too deeply
            why = f'not a request: {reason_of(error)}. Write {{"set": {{"sel0": "in-2"}}, "within_s": 1}}'
            return to_json(self._selections.refusal(why, requested_ns=requested_ns))
        return to_json(await self._selections.select(request, requested_ns=requested_ns))
