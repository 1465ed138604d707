"""The alignments of agents' clocks in the records: valid as long as the daemon's machine is not restarted."""

from collections.abc import Callable, Mapping
from typing import Final

import sqlalchemy as sa

from hwd.model.host import ClockAligned
from hwd.records.fact_reader import FactReader
from hwd.records.store_access import Access
from hwd.records.tables import about, alignments

CLOCK: Final = "clock"

Alignments = Mapping[tuple[str, str], ClockAligned]


class AlignmentTable:
    """The last alignment of each host and boot; `Records.add` writes them. `last_resort` writes where the disk may be
    full.
    """

    def __init__(
        self, access: Access, last_resort: Callable[[Callable[[], Alignments]], Alignments], read_fact: FactReader
    ) -> None:
        self._access = access
        self._store = access.store
        self._read_fact = read_fact
        self._last_resort = last_resort

    async def read(self, clock: str = "") -> Alignments:
        """The alignments to the daemon's clock of this name. Others are deleted: that clock ended with a
        restart of the machine.
        """
        return await self._access.write(self._last_resort, lambda: self._read(clock))

    # --- blocking, in the offload

    def _read(self, clock: str) -> Alignments:
        with self._store.transaction("read alignments") as connection:
            before = connection.scalar(sa.select(about.c.value).where(about.c.key == CLOCK))
            if (before or "") != clock:
                connection.execute(sa.delete(alignments))
                connection.execute(sa.delete(about).where(about.c.key == CLOCK))
                connection.execute(sa.insert(about).values(key=CLOCK, value=clock))
            read = {
                (row.host, row.boot): self._read_fact(ClockAligned.KIND, row.data)
                for row in connection.execute(sa.select(alignments))
            }
            return {boot: fact for boot, fact in read.items() if isinstance(fact, ClockAligned)}
