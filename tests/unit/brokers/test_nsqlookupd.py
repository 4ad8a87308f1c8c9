"""What nsqlookupd answers over HTTP, and what is asked of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from veristream.brokers.nsq.interface import (
    Found,
    Registered,
    delete_topic,
    find_nsqd,
    look_up,
    read_registered,
    set_tombstone,
)
from veristream.errors import ModelError

PRODUCER = {"broadcast_address": "127.0.0.1", "tcp_port": 4150, "http_port": 4151}
NODES = {
    "producers": [
        {**PRODUCER, "tcp_port": 5150, "http_port": 5151, "topics": None, "tombstones": None},
        {**PRODUCER, "topics": ["a", "b"], "tombstones": [True, False]},
    ]
}
ANSWERS = {
    "GET /nodes": (200, NODES),
    "GET /lookup?topic=a": (200, {"channels": [], "producers": [PRODUCER]}),
    "GET /lookup?topic=b": (200, {"channels": [], "producers": []}),
    "POST /topic/tombstone?topic=a&node=127.0.0.1%3A4151": (200, ""),
    "POST /topic/delete?topic=a": (200, ""),
}


class Lookupd(ThreadingHTTPServer):
    """Answers what is known, and 404 to all else, as nsqlookupd does for a topic that it does not know."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        assert isinstance(self.server, Lookupd)
        asked = f"{self.command} {self.path}"
        self.server.asked.append(asked)
        status, document = ANSWERS.get(asked, (404, {"message": "TOPIC_NOT_FOUND"}))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    do_GET = do_POST = answer  # noqa: N815  # as the base class calls them

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def lookupd() -> Iterator[Lookupd]:
    with Lookupd() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_consumers_are_sent_to_whoever_is_announced(lookupd: Lookupd) -> None:
    assert look_up(lookupd.address, "a") == [Found("127.0.0.1:4150", "127.0.0.1:4151")]
    assert look_up(lookupd.address, "b") == []
    assert look_up(lookupd.address, "unknown") == []


def test_an_entry_says_which_topics_are_hidden(lookupd: Lookupd) -> None:
    assert read_registered(lookupd.address, "127.0.0.1:4151") == Registered({"a": True, "b": False})
    assert read_registered(lookupd.address, "127.0.0.1:5151") == Registered({})
    assert read_registered(lookupd.address, "127.0.0.1:1") is None
    assert [each.address for each in find_nsqd(lookupd.address)] == ["127.0.0.1:4150", "127.0.0.1:5150"]


def test_a_removal_asks_both(lookupd: Lookupd) -> None:
    set_tombstone(lookupd.address, "a", "127.0.0.1:4151")
    delete_topic(lookupd.address, "a")
    assert lookupd.asked == [each for each in ANSWERS if each.startswith("POST")]
    with pytest.raises(ModelError, match=r"refuses /topic/delete: .*TOPIC_NOT_FOUND"):
        delete_topic(lookupd.address, "unknown")
