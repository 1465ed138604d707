"""Sender: sends the commands of one change over TL1, a limited number at a time."""

from collections.abc import Callable, Sequence

from hwd_drivers.codecs.tl1_messages import Answer, Command, Completion
from hwd_drivers.devices.tl1_client import Tl1Client


class Sender:
    """Sends commands, each with a text for errors; records their number, the first sending and the last answer."""

    def __init__(
        self, client: Tl1Client, *, in_flight: int, deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> None:
        self.commands = 0
        self.sent_ns = 0
        self.received_ns = 0
        self._client = client
        self._in_flight = in_flight
        self._deadline_s = deadline_s
        self._on_commanded = on_commanded

    async def all(self, commands: Sequence[tuple[Command, str]]) -> None:
        """Send all up to the first denial, which raises DeviceError; commands in flight with it are sent too."""
        for start in range(0, len(commands), self._in_flight):
            batch = commands[start : start + self._in_flight]
            for (_, what), answer in zip(batch, await self._send(batch), strict=True):
                self._client.done(what, answer)

    async def denials(self, commands: Sequence[tuple[Command, str]]) -> dict[int, tuple[str, Answer]]:
        """Send all, whatever the answers; returns the denials by index."""
        found = {}
        for start in range(0, len(commands), self._in_flight):
            batch = commands[start : start + self._in_flight]
            for place, answer in enumerate(await self._send(batch), start=start):
                if answer.code is not Completion.COMPLD:
                    found[place] = commands[place][1], answer
        return found

    async def _send(self, batch: Sequence[tuple[Command, str]]) -> Sequence[Answer]:
        tell = self._on_commanded if not self.commands else None
        commands = [command for command, _ in batch]
        answered = await self._client.ask(*commands, deadline_s=self._deadline_s, on_sent=tell)
        self.sent_ns = self.sent_ns or answered.sent_ns
        self.received_ns = answered.received_ns
        self.commands += len(batch)
        return answered.messages
