"""The parts that every serving process needs: its log, its socket, and its word to the service manager."""

from __future__ import annotations

import logging
import os
import socket
import time

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


class _LogFormatter(logging.Formatter):
    """Begins each line with the time in UTC."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure_log() -> None:
    """Write a line for each warning and error to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)


def notify_ready() -> None:
    """Notify the service manager that the service answers, if the process has one that waits for it.

    This is the protocol of `sd_notify`: a datagram to the socket that the environment names. A socket
    that cannot be reached is ignored, since the service itself is well.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # a socket without a file
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(b"READY=1", address)
        except OSError:
            return
