"""Finds the proxy of a request by the environment: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY.

The client's own option for this also reads `.netrc` and would send passwords from there, so it is
not used. Errors never show the user and the password of a proxy's URL.
"""

from __future__ import annotations

import ipaddress
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from holdfast.core.errors import ConfigurationError


def find_proxy(scheme: str, host: str) -> URL | None:
    """Return the proxy for a request to `host`, or None for a direct connection.

    A loopback address never uses a proxy, which would connect to its own machine.

    Raises:
        ConfigurationError: the environment names a proxy that is not an HTTP proxy.
    """
    if _is_loopback(host):
        return None
    proxies = {kind: address.strip() for kind, address in getproxies().items()}
    address = proxies.get(scheme) or proxies.get("all")
    if not address or proxy_bypass(host):
        return None
    if "://" not in address:
        address = f"http://{address}"
    variable = f"{scheme.upper()}_PROXY" if proxies.get(scheme) else "ALL_PROXY"
    try:
        proxy = URL(address)
    except ValueError:
        raise ConfigurationError(
            variable, "is not an address", fix="Write http://host:port"
        ) from None
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise ConfigurationError(
            variable,
            f"a proxy of the kind {proxy.scheme or 'unknown'!r} is not supported",
            fix=f"Set {scheme.upper()}_PROXY to http://host:port, or NO_PROXY to {host}",
        )
    return proxy


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
