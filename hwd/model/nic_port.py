"""The id of a NIC port."""

from typing import Self

import msgspec

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import natural_key


class NicPortId(msgspec.Struct, frozen=True, kw_only=True):
    """One logical NIC port, `h0.eth0`."""

    host: str
    port: str

    def __str__(self) -> str:
        return f"{self.host}.{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        host, dot, port = text.partition(".")
        if not (host and dot and port):
            raise ConfigError(f"NIC port {text!r}: write it as host.port, such as h0.eth0")
        return cls(host=host, port=port)

    def sort_key(self) -> tuple[object, ...]:
        return natural_key(self.host), natural_key(self.port)
