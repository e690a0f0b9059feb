"""Sockets to listen on: what asyncio makes of their connections."""

import asyncio
import socket

from intonaco.listening import open_listener


def test_what_asyncio_sends_on_an_accepted_connection_waits_for_no_acknowledgement():
    """Else a head and a body that are sent apart take 40 ms."""
    seen: asyncio.Queue[int] = asyncio.Queue()

    async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        seen.put_nowait(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def connect() -> int:
        with open_listener("127.0.0.1", 0) as listener:
            server = await asyncio.start_server(accepted, sock=listener)
            async with server:
                _, writer = await asyncio.open_connection(*listener.getsockname())
                no_delay = await asyncio.wait_for(seen.get(), timeout=10)
                writer.close()
                await writer.wait_closed()
        return no_delay

    assert asyncio.run(connect()) != 0
