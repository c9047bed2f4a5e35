"""The addresses that may be reached: public ones. A host is resolved once, and the checked address is connected to.

So a name that leads to another address a moment later (DNS rebinding) leads nowhere. This module must
never let a connection resolve a name by itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, for a port. Raises OSError."""

SCHEMES = ("http", "https")
_NAT64 = ip_network("64:ff9b::/96")
_ALSO_PRIVATE = (
    ip_network("100.64.0.0/10"),  # shared by the customers of a provider
    ip_network("192.0.0.0/24"),
    ip_network("198.18.0.0/15"),  # benchmarks
    ip_network("64:ff9b:1::/48"),
    ip_network("fec0::/10"),  # site-local, given up
)


class AddressError(ValueError):
    """An address must not be reached.

    Args:
        problem: why, as the rest of a sentence about the address.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def check_url(url: str, *, private_addresses: bool = False) -> SplitResult:
    """Return the parts of a URL that may be fetched.

    Args:
        url: the URL.
        private_addresses: whether loopback, link-local and private addresses are allowed.

    Raises:
        AddressError: it is no http(s) URL, holds credentials, or names an address that is not public.

    >>> check_url("https://example.org/a").hostname
    'example.org'
    """
    if any(character <= " " or character == "\x7f" for character in url):
        raise AddressError("holds a space or a control character")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise AddressError("is not a URL") from None
    if parts.scheme not in SCHEMES:
        raise AddressError("does not begin with http:// or https://")
    if not host:
        raise AddressError("names no host")
    if parts.username is not None or parts.password is not None:
        raise AddressError("holds credentials, which must not be in a URL")
    try:
        literal = ip_address(host)
    except ValueError:
        return parts
    if not private_addresses and not is_public(literal):
        raise AddressError("is a loopback, link-local or private address")
    return parts


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address belongs to the public internet.

    >>> is_public(ip_address("127.0.0.1")), is_public(ip_address("::ffff:10.0.0.1"))
    (False, False)
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address.teredo is not None:
            inner = address.teredo[1]
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _ALSO_PRIVATE)
    )


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host by the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class CheckedResolver(AbstractResolver):
    """Gives the HTTP client only addresses that may be reached.

    Args:
        resolve: finds the addresses of a host.
        private_addresses: whether loopback, link-local and private addresses are allowed.
    """

    def __init__(self, resolve: Resolve, *, private_addresses: bool) -> None:
        self._resolve = resolve
        self._private = private_addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses that may be reached.

        Raises:
            AddressError: the host has none, or has also others.
            OSError: the host is not found.
        """
        addresses = [
            ip_address(found.partition("%")[0]) for found in await self._resolve(host, port)
        ]
        if not self._private and not all(map(is_public, addresses)):
            raise AddressError("leads to a loopback, link-local or private address")
        results = [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]
        wanted = [one for one in results if family in (socket.AF_UNSPEC, one["family"])]
        if not wanted:
            raise OSError("the host has no address")
        return wanted

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
