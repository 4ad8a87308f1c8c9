"""A node's RPC that answers well, answers rubbish, or does not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from veristream.kabis.channels.failures import FAILURES, LyingPartyError
from veristream.kabis.cometbft import rpc
from veristream.kabis.cometbft.rpc import Call, Node, NodeError
from veristream.kabis.wire.endpoints import Address

OK = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"


@asynccontextmanager
async def answering(answer: bytes, asked: list[bytes] | None = None) -> AsyncIterator[Node]:
    """A node that answers everything so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        if asked is not None:
            asked.append(body)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Node(Address(*server.sockets[0].getsockname()[:2]))


def ask(answer: bytes, calls: int = 1, asked: list[bytes] | None = None) -> list[Any]:
    async def work() -> list[Any]:
        async with answering(answer, asked) as node:
            return await node.call_all([Call("status", (("height", "7"),))] * calls, 5.0)

    return asyncio.run(work())


def test_several_questions_are_one_call_and_answers_come_in_any_order() -> None:
    asked: list[bytes] = []
    answers = [{"id": 1, "result": "second"}, {"id": 0, "result": "first"}]
    assert ask(OK + json.dumps(answers).encode(), 2, asked) == ["first", "second"]
    sent = [json.loads(body) for body in asked]
    assert sent == [
        [{"jsonrpc": "2.0", "id": each, "method": "status", "params": {"height": "7"}} for each in (0, 1)]
    ]


def test_what_the_node_refuses_is_its_error() -> None:
    refused = {"id": 0, "error": {"code": -32603, "message": "Internal error", "data": "too high"}}
    with pytest.raises(NodeError, match="Internal error too high") as caught:
        ask(OK + json.dumps(refused).encode())
    assert caught.value.code == -32603
    assert isinstance(caught.value, FAILURES)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0\r\n\r\n",
        OK,
        OK + b"<html>",
        OK + b"7",
        OK + b"[7]",
        OK + b"[]",
        OK + b'[{"id": 1, "result": 1}]',
        OK + b'{"error": 7}',
        OK + b"[" * 100_000,
    ],
)
def test_rubbish_is_a_lie(answer: bytes) -> None:
    with pytest.raises(LyingPartyError):
        ask(answer)


def test_an_answer_without_end_is_a_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "ANSWER_BYTES_MAX", 1000)
    with pytest.raises(LyingPartyError, match="more than 1000 bytes"):
        ask(OK + b" " * 1000)


def test_a_node_that_is_not_there_fails_as_channels_do() -> None:
    async def work() -> None:
        async with answering(b"") as node:
            pass
        await node.call(Call("status"), 5.0)

    with pytest.raises(OSError, match="Connect"):
        asyncio.run(work())


def test_fields_are_what_they_are_taken_for() -> None:
    value = {"a": {"number": "7", "text": "x", "hex": "0aFF", "bytes": "AQ==", "none": None}}
    assert rpc.read_integer(value, "a", "number") == 7
    assert rpc.read_text(value, "a", "text") == "x"
    assert rpc.read_hex(value, "a", "hex") == b"\x0a\xff"
    assert rpc.read_bytes(value, "a", "bytes") == b"\x01"
    assert rpc.read_bytes(value, "a", "none") == b""
    for read, name in (
        (rpc.read_integer, "text"),
        (rpc.read_integer, "none"),
        (rpc.read_text, "none"),
        (rpc.read_hex, "text"),
        (rpc.read_bytes, "text"),
        (rpc.read_text, "missing"),
    ):
        with pytest.raises(LyingPartyError, match=f"a.{name}"):
            read(value, "a", name)


def test_an_application_that_has_no_answer_says_why() -> None:
    assert rpc.read_answer({"response": {"code": 0, "value": "AQ=="}}) == b"\x01"
    with pytest.raises(NodeError, match="no genesis"):
        rpc.read_answer({"response": {"code": 1, "log": "no genesis"}})
    with pytest.raises(LyingPartyError):
        rpc.read_answer({"response": 7})
