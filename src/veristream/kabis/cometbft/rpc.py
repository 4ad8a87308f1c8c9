"""A CometBFT node's RPC: JSON-RPC over HTTP, a connection for each call, several questions in one.

HTTP is spoken in version 1.0, in which an answer ends where the connection does: a node answers that, and
nothing of later versions is needed here. What a node says is not believed; whoever asks checks it.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.endpoints import Address

ANSWER_BYTES_MAX = 64 << 20
_READ_BYTES = 1 << 16


class NodeError(RequestError):
    """The node answers that it cannot do it; `code` and text are its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Call:
    """A method of the RPC and its parameters."""

    method: str
    parameters: tuple[tuple[str, object], ...] = ()


def query(path: str, data: bytes = b"") -> Call:
    """A question to the application."""
    return Call("abci_query", (("path", path), ("data", data.hex())))


def broadcast(transaction: bytes) -> Call:
    """A transaction for the next blocks; answered when the application has looked at it."""
    return Call("broadcast_tx_sync", (("tx", b64encode(transaction).decode("ascii")),))


@dataclass(frozen=True, slots=True)
class Node:
    """Where a node's RPC listens."""

    address: Address

    async def call(self, call: Call, timeout_s: float) -> Any:
        """The answer's `result`; raises one of `interfaces.FAILURES`."""
        return (await self.call_all((call,), timeout_s))[0]

    async def call_all(self, calls: Sequence[Call], timeout_s: float) -> list[Any]:
        """The results of several calls, in their order; the first that failed is raised."""
        body = json.dumps(
            [
                {"jsonrpc": "2.0", "id": number, "method": call.method, "params": dict(call.parameters)}
                for number, call in enumerate(calls)
            ]
        )
        async with asyncio.timeout(timeout_s):
            text = await self._post(body.encode("ascii"))
        return _read_results(text, len(calls))

    async def _post(self, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            head = (
                f"POST / HTTP/1.0\r\nHost: {self.address}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode("ascii") + body)
            answer = bytearray()
            while more := await reader.read(_READ_BYTES):
                answer += more
                if len(answer) > ANSWER_BYTES_MAX:
                    raise LyingPartyError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        finally:
            writer.close()
        _, blank, content = bytes(answer).partition(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.") or not blank:
            raise LyingPartyError(f"what answers at {self.address} is no RPC of CometBFT")
        return content


def _read_results(text: bytes, count: int) -> list[Any]:
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LyingPartyError(f"an answer that is no JSON: {text[:80]!r}") from error
    if isinstance(answers, dict):  # a node answers one question so, and refuses a list of them so
        answers = [answers]
    by_number: dict[int, Any] = {}
    for answer in answers if isinstance(answers, list) else ():
        if not isinstance(answer, dict):
            raise LyingPartyError("an answer that is no object")
        if answer.get("error"):
            raise _read_error(answer["error"])
        by_number[answer.get("id", -1)] = answer.get("result")
    if sorted(by_number) != list(range(count)):
        raise LyingPartyError("answers that are not those to the questions")
    return [by_number[number] for number in range(count)]


def _read_error(error: Any) -> Exception:
    if not isinstance(error, dict):
        return LyingPartyError("an error that is no object")
    code = error.get("code")
    text = f"{error.get('message', '')} {error.get('data', '')}".strip()
    return NodeError(code if isinstance(code, int) else 0, text)


def field(value: Any, *names: str) -> Any:
    """What stands under these names, one inside the other; raises LyingPartyError."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            raise LyingPartyError(f"an answer without {'.'.join(names)}")
        value = value[name]
    return value


def read_text(value: Any, *names: str) -> str:
    """A text under these names."""
    found = field(value, *names)
    if not isinstance(found, str):
        raise LyingPartyError(f"{'.'.join(names)} is no text")
    return found


def read_integer(value: Any, *names: str) -> int:
    """A whole number under these names, written as one or as a text."""
    found = field(value, *names)
    text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise LyingPartyError(f"{'.'.join(names)} is no number")
    return int(text)


def read_bytes(value: Any, *names: str) -> bytes:
    """Bytes in base 64 under these names; none where there is nothing."""
    found = field(value, *names)
    try:
        return b64decode(found or "", validate=True)
    except (Base64Error, ValueError, TypeError) as error:
        raise LyingPartyError(f"{'.'.join(names)} is not in base 64") from error


def read_hex(value: Any, *names: str) -> bytes:
    """Bytes in hexadecimal under these names."""
    try:
        return bytes.fromhex(read_text(value, *names))
    except ValueError as error:
        raise LyingPartyError(f"{'.'.join(names)} is not in hexadecimal") from error


def read_answer(result: Any) -> bytes:
    """What the application answered to a `query`; raises NodeError with what it said instead."""
    response = field(result, "response")
    code = response.get("code", 0) if isinstance(response, dict) else -1
    if code != 0:
        raise NodeError(1, read_text(response, "log"))
    return read_bytes(response, "value")
