"""Tells the service manager, such as systemd, that a service is ready."""

from __future__ import annotations

import os
import socket


def notify_ready() -> None:
    """Tell the service manager that the service answers, if the process has one that waits for it.

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
