"""Host keys of SSH: how a client verifies a host, and the keys of twins."""

import base64
import hashlib
import io
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ip_address import is_loopback
from hwd_drivers.transports.ssh.known_hosts import KnownHosts, authority_words

DEFAULT_PORT: Final = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTrust:
    """How a host proves its identity.

    `host_key`: its public key (`ssh-ed25519 AAAA...`) or the key's fingerprint (`SHA256:...`). `known_hosts`: a file in
    OpenSSH's format; with `trust_first` an unknown host is added to it. With neither, only hosts on this machine are
    accepted, as no network lies in between.
    """

    host_key: str | None = None
    known_hosts: Path | None = None
    trust_first: bool = False

    def check(self, name: str, address: str, key: paramiko.PKey) -> None:
        """Raises ConfigError where this key is not trusted.

        Reads, and with `trust_first` writes, the file: blocking.
        """
        shown = f"{name}: {address} shows the host key {key.get_name()} {fingerprint(key)}"
        if self.host_key is not None:
            if self.host_key.strip() not in (fingerprint(key), public_line(key)):
                raise ConfigError(f"{shown}, not the one of option host_key. If it is the right device, correct it")
        elif self.known_hosts is not None:
            self._check_file(self.known_hosts, address, key, shown)
        elif not is_local(address):
            raise ConfigError(
                f"{shown}, which is not trusted. If it is right, write it to option host_key, "
                "or name a file in option known_hosts"
            )

    def key_types(self, address: str) -> tuple[str, ...]:
        """Types of keys that we can check for this host; empty: any type. Reads the file: blocking."""
        if self.host_key is not None:
            kind = self.host_key.split(" ", 1)[0]
            return () if kind.startswith("SHA256:") else (kind,)
        if self.known_hosts is None or not self.known_hosts.exists():
            return ()
        return KnownHosts([self.known_hosts]).kinds_of(_known_as(address))

    def _check_file(self, path: Path, address: str, key: paramiko.PKey, shown: str) -> None:
        if not path.exists() and not self.trust_first:
            raise ConfigError(f"{path}: cannot be read as a known_hosts file: it does not exist")
        hosts = KnownHosts([path])
        known_as = _known_as(address)
        hosts.check_revoked(known_as, key, shown)
        if hosts.knows(known_as, key):
            return
        if hosts.keys_of(known_as):
            raise ConfigError(
                f"{shown}, and {path} has another key for {known_as}. If it is the right device, correct the file"
            )
        if not self.trust_first:
            authority = "" if (where := hosts.authority(known_as)) is None else authority_words(where)
            raise ConfigError(f"{shown}, and {path} does not know {known_as}{authority}. If it is right, add it there")
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{known_as} {public_line(key)}\n")


def twin_host_key(rng: random.Random) -> paramiko.PKey:
    """An Ed25519 key, the same for the same draws: for twins, never secret."""
    private = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32))
    text = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    return paramiko.Ed25519Key(file_obj=io.StringIO(text.decode("ascii")))


def public_line(key: paramiko.PKey) -> str:
    """The key as in a line of a known_hosts file, after the host."""
    return f"{key.get_name()} {key.get_base64()}"


def fingerprint(key: paramiko.PKey) -> str:
    """The fingerprint as OpenSSH prints it."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def is_local(address: str) -> bool:
    """Whether the address is on this machine: a loopback address, a Unix socket, a memory net."""
    if address.startswith(("unix:", "mem:")):
        return True
    return is_loopback(address.rpartition(":")[0].strip("[]"))


def _known_as(address: str) -> str:
    """`host`, or `[host]:port` where the port is not SSH's own."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    return host if port == str(DEFAULT_PORT) else f"[{host}]:{port}"
