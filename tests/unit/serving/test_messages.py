import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intonaco.errors import MessageError
from intonaco.serving.framing import (
    LENGTHS,
    MAX_HEADER_BYTES,
    Frame,
    FrameSocket,
    decode_frame,
    encode_frame,
    read_frame,
    read_lengths,
)
from intonaco.serving.messages import Draw, Drawn, PictureHeader, RawPicture, Stepped, Stop


def raw(width: int, height: int, mode: str = "RGB") -> RawPicture:
    header = PictureHeader(mode=mode, width=width, height=height)
    pixels = bytes(index % 251 for index in range(header.num_bytes))
    return RawPicture(header=header, pixels=pixels)


def draw(*pictures: RawPicture, **fields) -> Draw:
    values = {"draw_id": "a", "task": "edit", "prompt": "a", "seed": 1, "width": 64, "height": 64}
    headers = tuple(picture.header for picture in pictures)
    return Draw(**{**values, "num_steps": 4, "pictures": headers, **fields})


def read_back(content: bytes) -> Frame:
    async def read() -> Frame:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        return await read_frame(reader)

    return asyncio.run(read())


@given(
    prompt=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=3),
)
def test_a_frame_is_read_as_it_was_written(prompt, sizes):
    pictures = tuple(raw(width, height) for width, height in sizes)
    frame = Frame(message=draw(*pictures, prompt=prompt), pictures=pictures)
    assert read_back(encode_frame(frame)) == frame


def test_both_ends_speak_the_same_frames():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        FrameSocket(ours).send(draw(raw(2, 3)), (raw(2, 3),))
        assert FrameSocket(theirs).receive() == Frame(
            message=draw(raw(2, 3)), pictures=(raw(2, 3),)
        )


def test_the_other_ends_death_is_an_end_of_file_even_within_a_frame():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(encode_frame(Frame(message=Stop()))[:9])
        ours.close()
        with pytest.raises(EOFError):
            FrameSocket(theirs).receive()


def test_a_length_beyond_the_bounds_is_refused_before_it_is_read():
    with pytest.raises(MessageError, match="a frame has at most 4194304"):
        read_lengths(LENGTHS.pack(MAX_HEADER_BYTES + 1, 0))


@pytest.mark.parametrize(
    "header",
    [b"", b"{}", b'{"kind": "explode"}', b'{"kind": "stop", "more": 1}', b"\x80\x04N.", b"[1]"],
)
def test_what_is_no_message_is_refused(header):
    with pytest.raises(MessageError, match="message cannot be read"):
        decode_frame(header, b"")


def test_pixels_of_another_length_than_the_header_says_are_refused():
    message = Stepped(draw_id="a", index=0, num_steps=1, elapsed_s=0, pictures=(raw(2, 2).header,))
    with pytest.raises(MessageError, match="a payload of 11 bytes, its header 12"):
        decode_frame(message.model_dump_json().encode(), bytes(11))


def test_pictures_that_the_header_does_not_list_are_not_sent():
    with pytest.raises(MessageError, match="not those that its header lists"):
        encode_frame(Frame(message=draw(), pictures=(raw(1, 1),)))


def drawn_film(film: bytes, film_bytes: int | None = None) -> Frame:
    picture = raw(2, 3)
    message = Drawn(
        draw_id="a",
        receipt="{}",
        warnings=(),
        draw_ms=1.0,
        pictures=(picture.header,),
        film_bytes=len(film) if film_bytes is None else film_bytes,
    )
    return Frame(message=message, pictures=(picture,), film=film)


def test_a_film_travels_after_its_first_frame():
    frame = drawn_film(b"an mp4 file")
    assert read_back(encode_frame(frame)) == frame


@pytest.mark.parametrize("film_bytes", [0, 10, 12])
def test_a_film_of_another_length_than_the_header_says_is_not_sent(film_bytes):
    with pytest.raises(MessageError, match=f"the film has 11 bytes, its header {film_bytes}"):
        encode_frame(drawn_film(b"an mp4 file", film_bytes))
