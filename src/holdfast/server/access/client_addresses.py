"""Addresses: which one a request came from, and whether it is of this machine.

A header says where a request came from only if a proxy that was named has written it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import quote_setting

Network: TypeAlias = IPv4Network | IPv6Network

_IPV6_SITE = 64  # bits of an IPv6 address that one customer usually has


class Forwarded(Struct, frozen=True):
    """A request, as the headers of a proxy describe it.

    Args:
        address: the address of the client; "" if it is not known.
        scheme: "http" or "https".
        host: the `Host` that the client asked for; "" if the proxy does not say it.
    """

    address: str
    scheme: str
    host: str = ""


def parse_networks(argument: str, words: Sequence[str]) -> tuple[Network, ...]:
    """Return networks, such as "10.0.0.0/8" or "127.0.0.1".

    Raises:
        ConfigurationError: one is not a network.
    """
    try:
        return tuple(ip_network(word, strict=False) for word in words)
    except ValueError:
        wrong = next(word for word in words if not _is_network(word))
        raise ConfigurationError(
            argument,
            f"{quote_setting(wrong)} is not an address or a network",
            fix='Write addresses or networks, such as "127.0.0.1" or "10.0.0.0/8"',
        ) from None


def _is_network(word: str) -> bool:
    try:
        ip_network(word, strict=False)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether an address or a name is of this machine alone.

    >>> [is_loopback(one) for one in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.com")]
    [True, True, True, False, False]
    """
    if address == "127.0.0.1" or address.lower().rstrip(".") == "localhost":
        return True
    try:
        parsed = ip_address(address.strip("[]"))
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether an address is in one of the networks."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return any((mapped or parsed) in network for network in networks)


def name_caller(address: str) -> str:
    """Return the name under which the tries of an address are counted: of IPv6, its network.

    >>> name_caller("2001:db8:1:2:3::4")
    '2001:db8:1:2::/64'
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, _IPV6_SITE), strict=False))
    return str(parsed)


def read_forwarded(
    peer: str, scheme: str, headers: Sequence[tuple[bytes, bytes]], proxies: Sequence[Network]
) -> Forwarded:
    """Return where a request came from: the last address that no named proxy has.

    Args:
        peer: the address at the other end of the connection.
        scheme: the scheme of the connection.
        headers: the headers of the request, with lower-case names.
        proxies: the proxies whose headers count.

    >>> seen = [(b"x-forwarded-for", b"6.6.6.6, 9.9.9.9, 10.0.0.2")]
    >>> read_forwarded("10.0.0.1", "http", seen, parse_networks("p", ["10.0.0.0/8"])).address
    '9.9.9.9'
    >>> read_forwarded("8.8.8.8", "http", seen, parse_networks("p", ["10.0.0.0/8"])).address
    '8.8.8.8'
    """
    if not proxies or not is_within(peer, proxies):
        return Forwarded(peer, scheme)
    address = peer
    for hop in reversed(_split(headers, b"x-forwarded-for")):
        address = hop
        if not is_within(hop, proxies):
            break
    schemes, hosts = _split(headers, b"x-forwarded-proto"), _split(headers, b"x-forwarded-host")
    if schemes and schemes[-1].lower() in ("http", "https"):
        scheme = schemes[-1].lower()
    return Forwarded(address, scheme, hosts[-1] if hosts else "")


def _split(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    values = [value.decode("latin-1") for key, value in headers if key == name]
    return [word.strip() for word in ",".join(values).split(",") if word.strip()]


def has_forwarded(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a proxy, or somebody who pretends to be one, has added any header of proxies.

    A proxy that adds none, such as a tunnel, cannot be noticed.

    >>> has_forwarded([(b"via", b"1.1 gate")]), has_forwarded([(b"x-forwarded-ssl", b"")])
    (True, True)
    >>> has_forwarded([(b"host", b"localhost"), (b"accept", b"*/*")])
    False
    """
    return any(
        name in _OF_PROXIES or name.startswith(_BEGINNINGS)
        for name in (key.lower() for key, _ in headers)
    )


_OF_PROXIES = frozenset(
    {
        b"client-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"wl-proxy-client-ip",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-proxyuser-ip",
        b"x-real-ip",
        b"x-remote-ip",
    }
)
_BEGINNINGS = (
    b"cdn-",
    b"cf-",
    b"cloudfront-",
    b"fastly-",
    b"fly-",
    b"forwarded-",
    b"proxy-",
    b"x-amz-cf-",
    b"x-amzn-",
    b"x-appengine-",
    b"x-arr-",
    b"x-azure-",
    b"x-cloud-trace-",
    b"x-envoy-",
    b"x-forwarded",
    b"x-original-",
    b"x-real-",
    b"x-vercel-",
)
"""How the names of headers begin that proxies, networks for content and platforms add."""
