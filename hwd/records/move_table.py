"""The moves of the elements of switches in the records, counted with the documents of commands, which may be pruned."""

from collections import Counter
from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from hwd.records.store_access import Access
from hwd.records.tables import moves

_ADD = sa.text(
    "INSERT INTO moves (switch, element, moves) VALUES (:switch, :element, :moves) ON CONFLICT (switch, element) "
    "DO UPDATE SET moves = moves.moves + excluded.moves"
)


class MoveTable:
    """One row for each element that ever moved."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def all(self) -> Mapping[tuple[str, str], int]:
        """Read the counts of moves by switch and element."""
        return await self._access.read(
            "read how often switches have moved",
            lambda connection: {(row.switch, row.element): row.moves for row in connection.execute(sa.select(moves))},
        )


def add_moves(connection: sa.Connection, moved: Iterable[tuple[str, str]]) -> None:
    """Count one move for each switch and element, in the transaction that writes the documents."""
    rows = [
        {"switch": switch, "element": element, "moves": count} for (switch, element), count in Counter(moved).items()
    ]
    if rows:
        connection.execute(_ADD, rows)
