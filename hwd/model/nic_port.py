"""The id of a NIC port."""

from typing import Self

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import ValueText, natural_key


class NicPortId(ValueText):
    """One logical NIC port, `h0.eth0`."""

    __slots__ = ("host", "port")
    host: str
    port: str

    def __new__(cls, *, host: str, port: str) -> Self:
        made = super().__new__(cls, f"{host}.{port}")
        made.host, made.port = host, port
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        host, dot, port = text.partition(".")
        if not (host and dot and port):
            raise ConfigError(f"NIC port {text!r}: write it as host.port, such as h0.eth0")
        return cls(host=host, port=port)

    def sort_key(self) -> tuple[object, ...]:
        return natural_key(self.host), natural_key(self.port)
