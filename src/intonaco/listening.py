"""Sockets that servers listen on."""

import socket

BACKLOG = 1024


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises OSError or OverflowError."""
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )[0]
    # asyncio sends without delay only on sockets that name TCP; without, a head and a body that are sent
    # apart take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Whoever is told the port may connect at once.
        listener.listen(BACKLOG)
    except (OSError, OverflowError):
        listener.close()
        raise
    return listener
