"""The GID that an IP address makes on RoCE."""

import ipaddress


def gid_of(ip: str) -> str:
    """In the kernel's long form, as `/sys/class/infiniband/*/ports/*/gids/*` reads: an IPv6 address itself, an IPv4 address mapped into it (IBA annex A17)."""
    address = ipaddress.ip_address(ip)
    mapped = ipaddress.IPv6Address(f"::ffff:{address}") if address.version == 4 else ipaddress.IPv6Address(str(address))
    return mapped.exploded
