"""gid_of: the GID of an IP address on RoCE; long_form: the one way in which we write a GID."""

import ipaddress


def gid_of(ip: str) -> str:
    """The GID of an IP address in the long form (IBA annex A17).

    It is an IPv6 address itself, and an IPv4 address as an IPv4-mapped one.
    """
    return long_form(f"::ffff:{ip}" if ipaddress.ip_address(ip).version == 4 else ip)


def long_form(gid: str) -> str:
    """A GID as the kernel writes it in `/sys/class/infiniband/*/ports/*/gids/*`, and as pyverbs wants it.

    Not `exploded`: from Python 3.13 on it writes an IPv4-mapped address with dots, as `str` does.
    """
    return ipaddress.IPv6Address(gid).packed.hex(":", 2)
