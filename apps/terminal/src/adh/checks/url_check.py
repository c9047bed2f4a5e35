"""The check of addresses: the scheme, the host, and where the host leads.

It must never fetch anything. The tool that fetches refuses private addresses too, at the connection.
"""

from __future__ import annotations

from collections.abc import Iterator

from yarl import URL

from adh.checks.check_context import CheckContext
from adh.rules.addresses import find_address_problem, is_private_host
from adh.rules.facts import CallFacts

_SCHEMES = frozenset({"http", "https"})


async def check_urls(facts: CallFacts, context: CheckContext) -> str:
    """Return why an address may not be reached; empty if all may.

    Args:
        facts: the call.
        context: resolves hosts, and knows which private ones are allowed.
    """
    for url in list_urls(facts):
        problem = find_address_problem(url, _SCHEMES, context.private_hosts)
        if problem:
            return f"The address of the call is refused: {problem}."
        # A search for a host shows its name to the network, so nobody searches before the approval.
        problem = "" if context.preview else await _examine_host(url, context)
        if problem:
            return problem
    return ""


def list_urls(facts: CallFacts) -> Iterator[str]:
    """Yield every address of a call: its own and those of its commands."""
    yield from facts.urls
    for command in facts.commands:
        yield from command.urls


def is_allowed_host(url: str, private_hosts: tuple[str, ...]) -> bool:
    """Whether the host of an address may be private, as a rule names it.

    >>> is_allowed_host("http://localhost:8000/x", ("localhost:8000",))
    True
    """
    parsed = URL(url)
    host = (parsed.host or "").rstrip(".")
    return bool({"*", host, f"{host}:{parsed.port}"} & set(private_hosts))


async def _examine_host(url: str, context: CheckContext) -> str:
    if is_allowed_host(url, context.private_hosts):
        return ""
    host = URL(url).host or ""
    try:
        addresses = await context.resolve_host(host)
    except (OSError, UnicodeError):
        addresses = ()
    if not addresses:
        return f"The host {host} cannot be found."
    if any(is_private_host(address) for address in addresses):
        return f"The host {host} leads to a private address."
    return ""
