"""Opens the socket that a program of the command line listens on."""

from __future__ import annotations

import socket

from holdfast.core.errors import ConfigurationError


def listen(option: str, host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        option: the option with the port, for an error.
        host: the address.
        port: the port; 0 takes a free one.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigurationError(
            option,
            f"cannot listen on {host}:{port}: {error.strerror}",
            fix="Pass another port, or 0 for a free one",
        ) from error
    # Accepted connections take it over. Without it the kernel holds small pieces of text back for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_address(host: str, listener: socket.socket) -> str:
    """Return the address of a socket as a URL."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def split_address(option: str, text: str) -> tuple[str, int]:
    """Return the host and the port of a text such as "127.0.0.1:9000".

    Raises:
        ConfigurationError: it has another form.

    >>> split_address("--health", "[::1]:9000"), split_address("--health", ":9000")
    (('::1', 9000), ('127.0.0.1', 9000))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(option, f"is {text!r}", fix="Write HOST:PORT, or :PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host or "127.0.0.1", int(port)
