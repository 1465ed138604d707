"""What was before: the settings that runs have changed and not put back yet, on a disk of their own, in frames."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from hwd_agents.spool.disk_trouble import read, set_aside
from hwd_agents.wire import HeldSetting
from hwd_drivers.core.disk import Disk, Frames, decode_frames, encode_frame
from hwd_drivers.core.reason import reason_of

START: Final = b'{"run":"'
"""Each payload begins so, as msgspec writes fields in their order: where frames go on behind damage can be found."""
_log = logging.getLogger(__name__)


class KeptSetting(HeldSetting, frozen=True, kw_only=True):
    """One that is set. `until_ns`: it is put back without being asked when the host's monotonic clock is there; None: never. `life`: that of the host's kernel
    (its boot) in which it was set, which the clock belongs to; empty where it was not known.
    """

    until_ns: int | None = None
    life: str = ""

    @property
    def told(self) -> HeldSetting:
        """As a birth has it."""
        return HeldSetting(run=self.run, port=self.port, setting=self.setting, value=self.value, before=self.before)


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[KeptSetting] = msgspec.json.Decoder(KeptSetting)


class SettingJournal:
    """`held` is in the order in which it was changed. What is in it is on the disk: after a SIGKILL the next life of the agent finds it.

    `damaged_bytes` of the disk could not be read: what stands behind them is read all the same, and the whole of it is set aside. So is a frame at its
    end that is not whole: it is never appended to. A whole one that makes no sense to this agent stays there, for the one that wrote it.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        without = "what runs have set is not put back then; look at the ports of this host"
        found = decode_frames(read(disk, what="the journal of settings", without=without), resume=START)
        self.damaged_bytes = found.damaged_bytes + disk.size() - found.end_bytes
        if self.damaged_bytes:
            _log.error(
                "settings: %d bytes of the journal cannot be read%s. What a run has set may not be put back: look at the ports of this host",
                self.damaged_bytes,
                set_aside(disk),
            )
            self._cut(found)
        self._held: list[KeptSetting] = []
        self._strange: list[bytes] = []
        for number, payload in enumerate(found.payloads):
            try:
                self._held.append(_decoder.decode(payload))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self.damaged_bytes += len(payload)
                self._strange.append(payload)
                _log.warning("settings: frame %d of the journal makes no sense: %s", number, reason_of(error))

    def _cut(self, found: Frames) -> None:
        """Where the disk cannot, it is left: the next change writes all anew."""
        try:
            self._disk.replace(b"".join(map(encode_frame, found.payloads)))
        except OSError as error:
            _log.warning("settings: the journal cannot be written anew: %s", reason_of(error))

    @property
    def held(self) -> tuple[KeptSetting, ...]:
        return tuple(self._held)

    def add(self, held: KeptSetting) -> None:
        """Durable when it returns. Raises OSError where the disk cannot: then nothing may be changed."""
        self._write([*self._held, held])

    def remove(self, gone: Iterable[KeptSetting]) -> None:
        """They are as they were. Raises OSError where the disk cannot, and still holds them: putting back twice does no harm."""
        names = list(gone)
        self._write([held for held in self._held if held not in names])

    def hold(self, run: str, until_ns: int | None) -> Sequence[KeptSetting]:
        """All that a run has set holds until then; returns it. Raises OSError where the disk cannot: then it holds until when it did."""
        renewed = [msgspec.structs.replace(held, until_ns=until_ns) if held.run == run else held for held in self._held]
        if renewed != self._held:
            self._write(renewed)
        return [held for held in self._held if held.run == run]

    def _write(self, held: list[KeptSetting]) -> None:
        payloads = [*self._strange, *map(_encoder.encode, held)]
        self._disk.replace(b"".join(map(encode_frame, payloads)))
        self._held = held

    def close(self) -> None:
        self._disk.close()
