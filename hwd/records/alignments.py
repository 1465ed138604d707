"""The alignments of agents' clocks in the records: valid as long as the daemon's machine is not restarted."""

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from hwd.model.host import ClockAligned
from hwd.records.entry import FactReader
from hwd.records.store import put_row
from hwd.records.store_access import Access
from hwd.records.tables import about, alignments

CLOCK: Final = "clock"

Alignments = Mapping[tuple[str, str], ClockAligned]


class AlignmentTable:
    """The last alignment of each host and boot; `Records.add` writes them."""

    def __init__(self, access: Access, read_fact: FactReader) -> None:
        self._access = access
        self._read_fact = read_fact

    async def read(self, clock: str = "") -> Alignments:
        """The alignments to the daemon's clock of this name. Others are deleted: that clock ended with a
        restart of the machine. Also where the disk is full.
        """

        def read(connection: sa.Connection) -> Alignments:
            before = connection.scalar(sa.select(about.c.value).where(about.c.key == CLOCK))
            if (before or "") != clock:
                connection.execute(sa.delete(alignments))
                put_row(connection, about, {"key": CLOCK, "value": clock})
            read = {
                (row.host, row.boot): self._read_fact(ClockAligned.KIND, row.data)
                for row in connection.execute(sa.select(alignments))
            }
            return {boot: fact for boot, fact in read.items() if isinstance(fact, ClockAligned)}

        return await self._access.write_as_last_resort("read alignments", read)
