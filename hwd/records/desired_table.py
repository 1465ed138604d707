"""The desired state in the records, written with the documents that change it, which may be pruned."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from hwd.model.desired_state import DesiredEnd, ends_after
from hwd.model.reconfiguration import WantedSwitch
from hwd.records.store_access import Access
from hwd.records.tables import desired
from hwd_drivers.core.values import Crossconnect, PortSide

_PUT = sa.text(
    'INSERT INTO desired (switch, "end", crossconnect, "by") VALUES (:switch, :end, :crossconnect, :by) '
    'ON CONFLICT (switch, "end") DO UPDATE SET crossconnect = excluded.crossconnect, "by" = excluded."by"'
)


class DesiredTable:
    """One row for each fibre end of which a confirmed reconfiguration ever wanted something."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> Mapping[str, Mapping[PortSide, DesiredEnd]]:
        """Read the desired ends by switch and end."""
        return await self._access.read(
            "read the desired state", lambda connection: _read(connection, sa.select(desired))
        )


def put_wanted(connection: sa.Connection, wanted: Sequence[tuple[WantedSwitch, str]]) -> None:
    """Change the desired state by these in their order, in the transaction that writes their documents."""
    if not wanted:
        return
    switches = sorted({one.switch for one, _ in wanted})
    before = _read(connection, sa.select(desired).where(desired.c.switch.in_(switches)))
    after = dict(before)
    for one, by in wanted:
        after[one.switch] = ends_after(after.get(one.switch, {}), one, by=by)
    rows = [
        {"switch": switch, "end": end, "crossconnect": one.crossconnect, "by": one.by}
        for switch in switches
        for end, one in after[switch].items()
        if before.get(switch, {}).get(end) != one
    ]
    if rows:
        connection.execute(_PUT, rows)


def _read(
    connection: sa.Connection, query: sa.Select[tuple[str, str, str | None, str]]
) -> dict[str, dict[PortSide, DesiredEnd]]:
    found: dict[str, dict[PortSide, DesiredEnd]] = {}
    for row in connection.execute(query):
        crossconnect = None if row.crossconnect is None else Crossconnect.parse(row.crossconnect)
        found.setdefault(row.switch, {})[PortSide.parse(row.end)] = DesiredEnd(crossconnect=crossconnect, by=row.by)
    return found
