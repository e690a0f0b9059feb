"""Frames on a stream: two lengths, a JSON header, a payload. Lengths are checked before use.

bytes 0..3  header length, big endian      bytes 4..7  payload length, big endian
then the header, then the payload: raw pixels, and a film where there is one
"""

import asyncio
import socket
import struct
import threading
from dataclasses import dataclass

from intonaco.errors import MessageError
from intonaco.serving.messages import (
    AnyMessage,
    RawPicture,
    from_header,
    join_payload,
    split_payload,
    to_header,
)

LENGTHS = struct.Struct(">II")
MAX_HEADER_BYTES = 4 << 20
MAX_PAYLOAD_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A message, and the pictures and the MP4 file that came with it."""

    message: AnyMessage
    pictures: tuple[RawPicture, ...] = ()
    film: bytes = b""


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of `frame`. Raises MessageError where it is too long."""
    header = to_header(frame.message)
    payload = join_payload(frame.message, frame.pictures, frame.film)
    _check_lengths(len(header), len(payload))
    return LENGTHS.pack(len(header), len(payload)) + header + payload


def decode_frame(header: bytes, payload: bytes) -> Frame:
    """Return the frame with this header and this payload. Raises MessageError."""
    message = from_header(header)
    pictures, film = split_payload(message, payload)
    return Frame(message=message, pictures=pictures, film=film)


def read_lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of header and payload. Raises MessageError where they are beyond bounds."""
    header_length, payload_length = LENGTHS.unpack(prefix)
    _check_lengths(header_length, payload_length)
    return header_length, payload_length


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Return the next frame. Raises EOFError at the end, MessageError for anything else."""
    header_length, payload_length = read_lengths(await reader.readexactly(LENGTHS.size))
    header = await reader.readexactly(header_length)
    return decode_frame(header, await reader.readexactly(payload_length))


class FrameSocket:
    """The model process's end: blocking, safe to send on from several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: AnyMessage, pictures: tuple[RawPicture, ...] = ()) -> None:
        """Send one message and its pictures."""
        self.send_frame(Frame(message=message, pictures=pictures))

    def send_frame(self, frame: Frame) -> None:
        """Send one frame, whole."""
        with self._sending:
            self._connection.sendall(encode_frame(frame))

    def receive(self) -> Frame:
        """Return the next frame. Raises EOFError when the other end is gone."""
        header_length, payload_length = read_lengths(self._read(LENGTHS.size))
        header = self._read(header_length)
        return decode_frame(header, self._read(payload_length))

    def _read(self, num_bytes: int) -> bytes:
        parts: list[bytes] = []
        while num_bytes:
            part = self._connection.recv(min(num_bytes, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            num_bytes -= len(part)
        return b"".join(parts)


def _check_lengths(header_length: int, payload_length: int) -> None:
    if header_length > MAX_HEADER_BYTES or payload_length > MAX_PAYLOAD_BYTES:
        raise MessageError(
            f"a frame has at most {MAX_HEADER_BYTES} + {MAX_PAYLOAD_BYTES} bytes, this one "
            f"{header_length} + {payload_length}"
        )
