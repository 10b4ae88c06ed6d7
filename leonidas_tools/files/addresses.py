"""Distinguish public internet addresses from others, in any notation."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL = tuple(  # networks that Python 3.11 does not treat as special
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # the host of a virtual machine at Azure
            "192.0.0.0/24",  # protocol assignments; metadata at Oracle
            "192.88.99.0/24",  # 6to4 relays
            "3fff::/20",  # documentation
            "fec0::/10",  # site-local addresses
        ),
    )
)
_OF_CLOUDS = frozenset(
    map(
        ipaddress.ip_address,
        (
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle
            "fd00:ec2::254",  # Amazon
            "fd20:ce::254",  # Google
        ),
    )
)


def is_public(text: str) -> bool:
    """Return whether an IP address belongs to the public internet.

    Example:
        >>> is_public("93.184.215.14"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1")
        (True, False, False)
        >>> is_public("64:ff9b::a9fe:a9fe"), is_public("fe80::1%eth0"), is_public("224.0.0.1")
        (False, False, False)
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return False
    return all(map(_is_public, embedded_addresses(address)))


def embedded_addresses(address: Address) -> Sequence[Address]:
    """Return the IPv4 addresses embedded in an IPv6 address; if none, the address itself.

    Example:
        >>> embedded_addresses(ipaddress.ip_address("64:ff9b::a9fe:a9fe"))
        [IPv4Address('169.254.169.254')]
    """
    inner: list[ipaddress.IPv4Address | None] = []
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return [each for each in inner if each is not None] or [address]


def serves_credentials(address: Address) -> bool:
    """Return whether a cloud may serve the credentials of a machine at an address."""
    return address.is_link_local or address in _OF_CLOUDS


def _is_public(address: Address) -> bool:
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
