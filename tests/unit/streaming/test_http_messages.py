"""What is written to an HTTP server, and what is made of its answer's head."""

import pytest

from intonaco.errors import StoreError
from intonaco.streaming.http_messages import Head, parse_head, request_text
from intonaco.streaming.store import RangeRequest


def test_a_request_says_path_host_range_and_tag_and_no_more():
    wanted = RangeRequest(name="a", start=10, stop=20, tag='"x"')
    assert request_text("/c/a", host="store", port=8650, wanted=wanted).split("\r\n") == [
        "GET /c/a HTTP/1.1",
        "Host: store:8650",
        "User-Agent: intonaco",
        "Accept-Encoding: identity",
        "Range: bytes=10-19",
        'If-Range: "x"',
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [("store", None, "Host: store"), ("::1", None, "Host: [::1]"), ("::1", 80, "Host: [::1]:80")],
)
def test_the_host_is_named_as_a_url_names_it(host, port, line):
    assert line in request_text("/a", host=host, port=port, wanted=None).split("\r\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [("bytes 10-19/99", (10, 20)), ("bytes 10-19/*", (10, 20)), ("bytes */99", None), ("", None)],
)
def test_a_range_is_read_with_its_end_past_the_last_byte(text, found):
    assert Head(status=206, headers={"content-range": text}).content_range() == found


@pytest.mark.parametrize("content", [b"SSH-2.0\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"\r\n\r\n"])
def test_what_is_no_http_answer_is_refused(content):
    with pytest.raises(StoreError, match=r"no HTTP/1\.1 answer"):
        parse_head(content)


def test_a_head_is_read_without_regard_to_case():
    head = parse_head(b'HTTP/1.1 206 Partial Content\r\nETag:  "x"\r\nCONTENT-LENGTH: 5\r\n\r\n')
    assert (head.status, head.headers, head.length()) == (
        206,
        {"etag": '"x"', "content-length": "5"},
        5,
    )
