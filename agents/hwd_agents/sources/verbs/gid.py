"""gid_of: the GID of an IP address on RoCE."""

import ipaddress


def gid_of(ip: str) -> str:
    """The GID in the kernel's long form, as in `/sys/class/infiniband/*/ports/*/gids/*` (IBA annex A17).

    It is an IPv6 address itself, and an IPv4 address as an IPv4-mapped one.
    """
    address = ipaddress.ip_address(ip)
    mapped = ipaddress.IPv6Address(f"::ffff:{address}") if address.version == 4 else ipaddress.IPv6Address(str(address))
    return mapped.exploded
