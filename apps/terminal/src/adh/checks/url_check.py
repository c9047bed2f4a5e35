"""The check of addresses: the scheme, the host, and where the host leads.

It must never fetch anything. The tool that fetches refuses private addresses too, at the connection.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import urlsplit

from adh.checks.check_context import CheckContext
from adh.rules.facts import CallFacts

_SCHEMES = frozenset({"http", "https"})


async def check_urls(facts: CallFacts, context: CheckContext) -> str:
    """Return why an address may not be reached; empty if all may.

    Args:
        facts: the call.
        context: resolves hosts, and knows whether private addresses are allowed.
    """
    for url in list_urls(facts):
        problem, host = examine_url(url)
        if not problem and not context.private_addresses:
            problem = await _examine_host(host, context)
        if problem:
            return problem
    return ""


def list_urls(facts: CallFacts) -> Iterator[str]:
    """Yield every address of a call: its own and those of its commands."""
    yield from facts.urls
    for command in facts.commands:
        yield from command.urls


def examine_url(url: str) -> tuple[str, str]:
    """Return why an address is not allowed, or "", and its host.

    >>> examine_url("file:///etc/passwd")
    ('The address must begin with http:// or https://.', '')
    >>> examine_url("https://example.org/a")
    ('', 'example.org')
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "The address is malformed.", ""
    if any(ord(char) <= 0x20 or char == "\\" for char in url):
        return "The address has a space, a backslash or a control character.", ""
    if parts.scheme not in _SCHEMES:
        return "The address must begin with http:// or https://.", ""
    if parts.username is not None or parts.password is not None:
        return "The address must not hold a name or a password.", ""
    if not host:
        return "The address has no host.", ""
    return "", host


async def _examine_host(host: str, context: CheckContext) -> str:
    try:
        addresses = await context.resolve_host(host)
    except (OSError, UnicodeError):
        return f"The host {host} cannot be found."
    if not addresses:
        return f"The host {host} cannot be found."
    if any(not is_public_address(address) for address in addresses):
        return f"The host {host} leads to a private address."
    return ""


def is_public_address(address: str) -> bool:
    """Whether an IP address is one of the public internet.

    >>> [is_public_address(one) for one in ("93.184.216.34", "169.254.169.254", "::ffff:127.0.0.1")]
    [True, False, False]
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo and found.teredo[1])
        if inner:
            return is_public_address(str(inner))
        if found in _NAT64:
            return is_public_address(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
    return found.is_global and not found.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
