"""SettingJournal: the earlier states of settings that runs have changed, in frames on a disk of its own."""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from hwd_agents.spool.disk_trouble import read, set_aside
from hwd_agents.wire import HeldSetting
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.frames import decode_frames, encode_frame
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import decoder, encoder

START: Final = b'{"run":"'
"""Each payload begins with this, because msgspec writes fields in order: so frames behind damage can be found."""
_log = logging.getLogger(__name__)


class JournalSetting(HeldSetting, frozen=True, kw_only=True):
    """A changed setting. `until_ns`: it is put back when the host's monotonic clock reaches this; None: never.

    `life`: the boot of the host's kernel in which it was set, to which that clock belongs; empty when it was unknown.
    """

    until_ns: int | None = None
    life: str = ""

    @property
    def held_setting(self) -> HeldSetting:
        """The fields that the birth message has."""
        return HeldSetting(run=self.run, port=self.port, setting=self.setting, value=self.value, before=self.before)


_encoder = encoder()
_decoder: msgspec.json.Decoder[JournalSetting] = decoder(JournalSetting)


class SettingJournal:
    """The journal of settings; `held` is in the order of the changes. It is all on the disk: after a SIGKILL the next
    process reads it.

    `damaged_bytes` of the disk could not be read: frames behind them are read all the same, and the whole file is set
    aside. So is a file with an incomplete frame at its end: nothing is appended to that. A complete frame that this
    agent cannot parse stays there, for the version that wrote it.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        without = "what runs have set is not put back then; look at the ports of this host"
        found = decode_frames(read(disk, what="the journal of settings", without=without), resume=START)
        self.damaged_bytes = found.damaged_bytes + disk.size() - found.end_bytes
        if self.damaged_bytes:
            _log.error(
                "settings: %d bytes of the journal cannot be read%s. "
                "What a run has set may not be put back: look at the ports of this host",
                self.damaged_bytes,
                set_aside(disk),
            )
            try:
                disk.replace(b"".join(map(encode_frame, found.payloads)))
            except OSError as error:  # the next change rewrites it
                _log.warning("settings: the journal cannot be rewritten: %s", reason_of(error))
        self._held: list[JournalSetting] = []
        self._strange: list[bytes] = []
        for number, payload in enumerate(found.payloads):
            try:
                self._held.append(_decoder.decode(payload))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self.damaged_bytes += len(payload)
                self._strange.append(payload)
                _log.warning("settings: frame %d of the journal cannot be parsed: %s", number, reason_of(error))

    @property
    def held(self) -> tuple[JournalSetting, ...]:
        return tuple(self._held)

    def add(self, held: JournalSetting) -> None:
        """Durable when it returns. Raises OSError when the disk cannot: then nothing may be changed."""
        self._write([*self._held, held])

    def remove(self, gone: Iterable[JournalSetting]) -> None:
        """Remove settings that were restored. Raises OSError when the disk cannot, and keeps them: to put back twice
        does no harm.
        """
        names = list(gone)
        self._write([held for held in self._held if held not in names])

    def hold(self, run: str, until_ns: int | None) -> Sequence[JournalSetting]:
        """Hold all settings of a run until then; returns them. Raises OSError when it failed: the old time stays."""
        renewed = [msgspec.structs.replace(held, until_ns=until_ns) if held.run == run else held for held in self._held]
        if renewed != self._held:
            self._write(renewed)
        return [held for held in self._held if held.run == run]

    def _write(self, held: list[JournalSetting]) -> None:
        payloads = [*self._strange, *map(_encoder.encode, held)]
        self._disk.replace(b"".join(map(encode_frame, payloads)))
        self._held = held

    def close(self) -> None:
        self._disk.close()
