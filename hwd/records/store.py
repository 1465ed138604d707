"""The database of the records: opens it, runs transactions. Blocking; called through an Offload."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

from hwd.records import tables
from hwd.records.records_file import DatabaseUrl
from hwd_drivers.core.errors import ConfigError, FailedError, LinkError
from hwd_drivers.core.private_files import FILE_MODE

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000
"""The longest that a writer waits for a lock: a report that reads the same file may hold one for a moment."""

_PAGE_BYTES = 4096
_ROWS_MOST = 512
"""The most rows in one statement; SQLite takes 32,766 values."""


class Store:
    """One database by SQLAlchemy URL. `sqlite://` is in memory: one connection, deleted with the object.

    SQLite runs with a write-ahead log and synchronous FULL: what a transaction wrote is on the disk when it returns.
    `max_bytes` bounds an SQLite file; beyond it writing fails as on a full disk. With `read_only` nothing is created.
    `name`: for messages, by default the URL.
    """

    def __init__(
        self, url: DatabaseUrl, *, max_bytes: int | None = None, read_only: bool = False, name: str | None = None
    ) -> None:
        try:
            parsed = sa.make_url(url)
            self.in_memory = parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:")
            if self.in_memory:
                only = {"check_same_thread": False}
                self._engine = sa.create_engine(parsed, poolclass=StaticPool, connect_args=only)
            else:
                self._engine = sa.create_engine(parsed)
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
            raise ConfigError(
                f"records {url!r}: not a database URL, {error}. Use sqlite:///FILE or postgresql://"
            ) from error
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"records {url!r}: {error}. Install the driver that the URL names, or use sqlite:///FILE"
            ) from error
        ours = parsed.get_backend_name() == "sqlite" and not self.in_memory and not read_only
        self._file = parsed.database if ours else None
        self.name = parsed.render_as_string(hide_password=True) if name is None else name
        self._max_bytes = max_bytes
        self._read_only = read_only
        if parsed.get_backend_name() == "sqlite":
            sa.event.listen(self._engine, "connect", self._prepare_sqlite)

    def open(self) -> None:
        """Create the tables, unless this reads only; refuse those of another version. A new file, and those that SQLite
        makes beside it, can be read by this user only.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):  # SQLite, which opens it next, reports what is wrong with the place
                os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        self.run("open", self._open)

    def close(self) -> None:
        self._engine.dispose()

    def run(self, attempt: str, work: Callable[[sa.Connection], T]) -> T:
        """Do `work` in a transaction: all or nothing. Errors name `attempt`: LinkError where the database does not
        answer, FailedError else.
        """
        try:
            with self._engine.begin() as connection:
                return work(connection)
        except sa.exc.DBAPIError as error:
            raise self._explained(attempt, error) from error

    def _open(self, connection: sa.Connection) -> None:
        present = set(sa.inspect(connection).get_table_names())
        ours = {table.name for table in tables.metadata.sorted_tables}
        if tables.about.name in present:
            text = connection.scalar(sa.select(tables.about.c.value).where(tables.about.c.key == "schema"))
            self._check_version(int(text or 0))
            return
        if foreign := present & ours:
            raise ConfigError(f"records {self.name}: has tables {', '.join(sorted(foreign))} that are not ours")
        if self._read_only:
            raise ConfigError(f"records {self.name}: has no tables of hwd. Name the folder of a daemon's data")
        tables.metadata.create_all(connection, checkfirst=False)
        connection.execute(sa.insert(tables.about).values(key="schema", value=str(tables.VERSION)))

    def _explained(self, attempt: str, error: sa.exc.DBAPIError) -> Exception:
        text = str(error.orig)
        if "not a database" in text or "malformed" in text:
            return ConfigError(f"records {self.name}: {text}. Move the file away, or name another")
        if "unable to open" in text:
            return ConfigError(f"records {self.name}: {text}. Make its folder, or look at its permissions")
        if "disk is full" in text or "No space left" in text:
            return FailedError(
                f"records {self.name}: cannot {attempt}: {text}. What was recorded before stays readable; "
                "free some space and try again; a daemon needs no restart"
            )
        if error.connection_invalidated or isinstance(error, sa.exc.InterfaceError):
            return LinkError(f"records {self.name}: cannot {attempt}: {text}")
        return FailedError(f"records {self.name}: cannot {attempt}: {text}")

    def _check_version(self, version: int) -> None:
        if version != tables.VERSION:
            whose = "a newer" if version > tables.VERSION else "an older"
            raise ConfigError(
                f"records {self.name}: written by {whose} hwd (schema {version}, this one knows {tables.VERSION}), and "
                "left as they are. Use that hwd, or another file"
            )

    def _prepare_sqlite(self, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        if not self.in_memory and not self._read_only:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
        if self._max_bytes is not None:
            cursor.execute(f"PRAGMA max_page_count={self._max_bytes // _PAGE_BYTES}")
        cursor.close()


def row_of(table: sa.Table, value: object, **encoded: Any) -> dict[str, Any]:
    """The row of a value: its fields by the names of the columns, but for those in `encoded`."""
    names = [column.name for column in table.columns if column.autoincrement is not True]
    return {name: encoded[name] if name in encoded else getattr(value, name) for name in names}


def put_row(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
    """Insert a row, in place of the one with its primary key."""
    connection.execute(sa.delete(table).where(*[column == row[column.name] for column in table.primary_key]))
    connection.execute(sa.insert(table), [row])


def insert_rows(connection: sa.Connection, insert: str, rows: Sequence[tuple[object, ...]]) -> None:
    """`insert`: the statement up to VALUES. Many rows go into one statement.

    With one statement a row the driver releases and takes the interpreter's lock at each, and the event loop waits as
    often. The numbers of rows are powers of two, so that the driver prepares few statements and caches them.
    """
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    start = 0
    while left := len(rows) - start:
        count = 1 << (min(left, _ROWS_MOST).bit_length() - 1)
        some = rows[start : start + count]
        row = f"({', '.join([mark] * len(some[0]))})"
        values = tuple(value for one in some for value in one)
        connection.exec_driver_sql(f"{insert} VALUES {', '.join([row] * count)}", values)
        start += count
