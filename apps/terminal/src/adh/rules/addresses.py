"""Addresses of the web: which are private, and which a rule allows.

It must never look a name up: a public name may lead to a private address, which is checked when the
connection is made.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from yarl import URL

IPAddress = IPv4Address | IPv6Address

_PRIVATE_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def find_address_problem(url: str, schemes: Collection[str], allowed: Collection[str]) -> str:
    """Return why an address may not be reached; empty if it may.

    Args:
        url: the address.
        schemes: the schemes that are allowed, in small letters.
        allowed: hosts, each with or without `:port`, that are allowed although they are private;
            "*" allows all of them.

    >>> find_address_problem("http://169.254.169.254/x", ["http"], [])
    '169.254.169.254 is not a public address'
    >>> find_address_problem("https://example.org/", ["https"], [])
    ''
    """
    if any(ord(char) <= 32 or char in "\\\x7f" for char in url):
        return "the address holds a space, a control character or a backslash"
    try:
        parsed = URL(url)
        host, port = (parsed.host or "").rstrip("."), parsed.port
    except ValueError:
        return "the address is malformed"
    if parsed.scheme not in schemes:
        return f'the scheme "{parsed.scheme}" is not one of: {", ".join(sorted(schemes))}'
    if not host:
        return "the address has no host"
    if "@" in parsed.raw_authority:
        return "the address holds a user name"
    if is_private_host(host) and not {"*", host, f"{host}:{port}"} & set(allowed):
        return f"{host} is not a public address"
    return ""


def is_private_host(host: str) -> bool:
    """Return whether a host is not certainly public: by its number, or by its name.

    Args:
        host: a name or a number, without a port and without brackets.

    >>> [is_private_host(host) for host in ("127.1", "::ffff:10.0.0.1", "2130706433", "example.org")]
    [True, True, True, False]
    """
    name = host.casefold().rstrip(".")
    address = read_ip_address(name)
    if address is not None:
        return not _is_public(address)
    if "." not in name:
        return True
    return any(name == private or name.endswith("." + private) for private in _PRIVATE_NAMES)


def read_ip_address(host: str) -> IPAddress | None:
    """Return the number that a host stands for, in any form that a system's resolver takes.

    >>> read_ip_address("0x7f.1"), read_ip_address("example.org")
    (IPv4Address('127.0.0.1'), None)
    """
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return _read_short_ipv4(host)


def _read_short_ipv4(host: str) -> IPv4Address | None:
    parts = host.split(".")
    if not 1 <= len(parts) <= 4:
        return None
    try:
        numbers = [_read_number(part) for part in parts]
    except ValueError:
        return None
    *leading, last = numbers
    if any(number > 255 for number in leading) or last >= 256 ** (5 - len(numbers)):
        return None
    value = last + sum(number << (8 * (3 - at)) for at, number in enumerate(leading))
    return IPv4Address(value)


def _read_number(part: str) -> int:
    if not part.isascii() or not part.isalnum() or len(part) > 12:
        raise ValueError(part)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") and len(part) > 1 else 10)


def _is_public(address: IPAddress) -> bool:
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64 or address in _COMPATIBLE:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address.teredo:
            return False
    return address.is_global and not address.is_multicast
