"""PortGids: whether an RDMA port has the GID by which it is reached, as its files show."""

from typing import Final

from hwd_agents.sources.readings import FileReading, FileSource
from hwd_agents.sources.verbs.gid import gid_of

ROCE_V2: Final = "RoCE v2"
"""Content of `gid_attrs/types/N` for RoCE v2 (Linux Documentation/ABI/stable/sysfs-class-infiniband)."""
INFINIBAND: Final = "InfiniBand"
"""Content of `link_layer` when the GIDs come from the subnet and not from the interface's addresses."""
HOLES: Final = 32
"""The search ends after so many empty entries: the kernel puts a GID into the first empty one."""


class PortGids:
    """The RoCE v2 GID of the port's address, which the probe uses; the first GID if the address makes none."""

    def __init__(self, source: FileSource, folder: str, ip: str | None) -> None:
        self._source = source
        self._folder = folder
        self._wanted = None if ip is None else gid_of(ip)
        self._index: int | None = None

    async def look(self) -> tuple[bool, int]:
        """Whether the GID exists, and the end of the last read, `Clock.monotonic_ns`. Raises LinkError."""
        if self._wanted is None:
            return await self._first()
        if self._index is not None:
            reading = await self._read(f"gids/{self._index}")
            if self._is_wanted(reading):
                return True, reading.after_ns
            self._index = None
        found, after_ns = await self._seek()
        if not found and ((await self._read("link_layer")).text or "").startswith(INFINIBAND):
            return await self._first()
        return found, after_ns

    async def _first(self) -> tuple[bool, int]:
        reading = await self._read("gids/0")
        return not _is_empty(reading), reading.after_ns

    async def _seek(self) -> tuple[bool, int]:
        index = holes = 0
        while True:
            reading = await self._read(f"gids/{index}")
            if self._is_wanted(reading):
                kind = await self._read(f"gid_attrs/types/{index}")
                if kind.text is not None and kind.text.startswith(ROCE_V2):
                    self._index = index
                    return True, kind.after_ns
            holes = holes + 1 if _is_empty(reading) else 0
            index += 1
            if reading.text is None or holes == HOLES:
                return False, reading.after_ns

    def _is_wanted(self, reading: FileReading) -> bool:
        return reading.text is not None and reading.text.strip() == self._wanted

    async def _read(self, leaf: str) -> FileReading:
        return await self._source.read_file(f"{self._folder}/{leaf}")


def _is_empty(reading: FileReading) -> bool:
    """An entry without a GID reads as zeros."""
    return reading.text is None or reading.text.strip(" \n:0") == ""
