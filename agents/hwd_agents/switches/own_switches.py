"""OwnSwitches: the host's own switches: their drivers, leases, selections, and the daemon's commands about them."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from hwd_agents.process.command_handler import Verb
from hwd_agents.process.config import AgentConfig
from hwd_agents.process.line_socket import Spawn
from hwd_agents.process.seams import Seams
from hwd_agents.spool.outbox import Emit
from hwd_agents.spool.spool import Spool
from hwd_agents.switches.epochs import Epochs
from hwd_agents.switches.host_switches import Switches
from hwd_agents.switches.intents import Intents
from hwd_agents.switches.select_socket import SelectSocket
from hwd_agents.switches.selections import Selections
from hwd_agents.watchers.link_watcher import LinkWatcher
from hwd_agents.wire import SwitchNote
from hwd_agents.wire.arguments import Delegate, TakeBack
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.structs import from_plain

SELECTIONS: Final = "selections"
SOCKET: Final = "selection socket"


class OwnSwitches:
    """The switches of one agent. A host without switches has it too: it answers the daemon that there are none.

    Data of the replies: `delegate`: switches: {name: SwitchNote and crossconnects}, refused: {name: why}; `take-back`:
    switches, after all earlier commands to them have ended.
    """

    def __init__(
        self,
        config: AgentConfig,
        boot: str,
        link: LinkWatcher,
        spool: Spool,
        seams: Seams,
        *,
        emit: Emit,
        spawn: Spawn,
        on_change: Callable[[], None],
    ) -> None:
        def keep(name: str, value: dict[str, Any]) -> None:
            spool.mark(name, value)
            spool.flush()

        def set_mark(name: str, value: dict[str, Any]) -> None:
            keep(name, value)
            spool.sync()  # before the daemon is informed

        origin = "measured" if config.sources.twin is None else "twin"
        self._on_change = on_change
        self._host, self._boot, self._number = config.host, boot, 0
        self._epochs = Epochs(config.switches, spool.marks, set_mark)
        self._switches = Switches(
            config.switches,
            self._epochs,
            dialer=seams.dialer,
            clock=seams.clock,
            draws=seams.draws,
            emit=emit,
            origin=origin,
            on_change=on_change,
        )
        self._selections = Selections(
            self._switches,
            self._epochs,
            link,
            config.selection,
            clock=seams.clock,
            emit=emit,
            origin=origin,
            name=self._name,
            intents=Intents(spool.marks, keep),
            clock_name=seams.clock_name,
        )
        self._socket = SelectSocket(
            config.selection, self._selections, self._switches, acceptor=seams.dialer, clock=seams.clock, spawn=spawn
        )

    def runs(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Name and body of each task."""
        if not self._switches.names:
            return []
        return [(SELECTIONS, self._selections.run), (SOCKET, self._socket.run), *self._switches.runs().items()]

    def notes(self) -> dict[str, SwitchNote]:
        """The notes of the switches, for the birth message."""
        return self._switches.notes()

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """The handlers of the daemon's commands about them, by verb."""
        return {"delegate": self._delegate, "take-back": self._take_back}

    async def _delegate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        refused = {}
        for name, epoch in from_plain(arguments, Delegate).grants.items():
            try:
                self._epochs.grant(name, epoch)
            except RefusedError as error:
                refused[name] = str(error)
        self._on_change()
        return {"switches": self._switches.show(), "refused": refused}

    async def _take_back(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = from_plain(arguments, TakeBack)
        self._epochs.take_back(asked.switch, asked.epoch, asked.why)
        self._on_change()
        await self._selections.until_idle(asked.switch)
        return {"switches": self._switches.show()}

    def _name(self) -> str:
        self._number += 1
        return f"{self._host}-{self._boot[:8]}-{self._number}"
