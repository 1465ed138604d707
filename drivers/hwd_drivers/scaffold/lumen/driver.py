"""The driver of Lumen switches: one session that reads and changes crossconnects."""

from collections.abc import Callable, Sequence

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, Exchange, Identity
from hwd_drivers.devices.matrix_switch import LineMatrix, numbers

from . import protocol


class LumenSwitch(LineMatrix):
    """One session with one switch; open it with `LumenSwitch.open`."""

    @classmethod
    def decoder(cls) -> LineDecoder:
        return LineDecoder("Lumen", limit_bytes=protocol.LINE_MAX)

    async def identify(self, *, deadline_s: float) -> Identity:
        return await self._get("ID", protocol.read_identity, deadline_s)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model. Raises ConfigError where the switch has another size."""
        return self._stated(await self._get("SIZE", protocol.read_size, deadline_s))

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return tuple(CrossconnectReading(crossconnect=pair) for pair in await self._get("MAP", self._map, deadline_s))

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One `SET`, and in the same write a `MAP` before it, which reads the state before the change."""
        change = protocol.change(numbers(remove), numbers(add))
        answered = await self._ask("MAP", change, deadline_s=deadline_s, on_sent=on_commanded)
        before = self._read("MAP", answered.messages[0], self._map)
        self._read("SET", answered.messages[1], protocol.read_done)
        return Exchange(commanded_ns=answered.sent_ns, acknowledged_ns=answered.received_ns, commands=1, before=before)

    def _map(self, line: str) -> tuple[Crossconnect, ...]:
        return self._crossconnects(protocol.read_map(line))

    def _refusal(self, answer: str) -> tuple[str, str] | None:
        verb, _, rest = answer.partition(" ")
        code, _, text = rest.partition(" ")
        return (code, text) if verb == "NO" else None
