"""IP addresses as text: which address a text is, and whether it leads to this machine alone."""

import ipaddress


def ip_address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `host` is, None where it is a name. An IPv4-mapped address is the IPv4 address in it: only from
    Python 3.13 on `is_loopback` and `is_unspecified` of the mapped one say what that one is.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to that address or name."""
    address = ip_address_of(host)
    return host.lower() == "localhost" if address is None else address.is_loopback
