"""Client of a CometBFT node's RPC: JSON-RPC over HTTP, with one connection per (batch) call.

It uses HTTP 1.0, where the end of the connection ends the answer; nodes support it, and nothing of later
versions is needed. Answers are not trusted; the caller checks them.
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
    """The node reports an error; `code` and text are its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Call:
    """An RPC method and its parameters."""

    method: str
    parameters: tuple[tuple[str, object], ...] = ()


def query(path: str, data: bytes = b"") -> Call:
    """Builds a query to the application."""
    return Call("abci_query", (("path", path), ("data", data.hex())))


def broadcast(transaction: bytes) -> Call:
    """Builds the submission of a transaction; the answer comes after the application's check."""
    return Call("broadcast_tx_sync", (("tx", b64encode(transaction).decode("ascii")),))


@dataclass(frozen=True, slots=True)
class Node:
    """The address of a node's RPC."""

    address: Address

    async def call(self, call: Call, timeout_s: float) -> Any:
        """Returns the `result` of a call; raises one of `failures.FAILURES`."""
        return (await self.call_all((call,), timeout_s))[0]

    async def call_all(self, calls: Sequence[Call], timeout_s: float) -> list[Any]:
        """Returns the results of several calls in order; raises the first error."""
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
                    raise LyingPartyError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        finally:
            writer.close()
        _, blank, content = bytes(answer).partition(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.") or not blank:
            raise LyingPartyError(f"{self.address} is not the RPC of a CometBFT node")
        return content


def _read_results(text: bytes, count: int) -> list[Any]:
    try:
        answers = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LyingPartyError(f"the answer is not JSON: {text[:80]!r}") from error
    if isinstance(answers, dict):  # the answer to a single call, or the refusal of a batch
        answers = [answers]
    by_number: dict[int, Any] = {}
    for answer in answers if isinstance(answers, list) else ():
        if not isinstance(answer, dict):
            raise LyingPartyError("the answer is not an object")
        if answer.get("error"):
            raise _read_error(answer["error"])
        by_number[answer.get("id", -1)] = answer.get("result")
    if sorted(by_number) != list(range(count)):
        raise LyingPartyError("the answers do not match the calls")
    return [by_number[number] for number in range(count)]


def _read_error(error: Any) -> Exception:
    if not isinstance(error, dict):
        return LyingPartyError("the error is not an object")
    code = error.get("code")
    text = f"{error.get('message', '')} {error.get('data', '')}".strip()
    return NodeError(code if isinstance(code, int) else 0, text)


def field(value: Any, *names: str) -> Any:
    """Returns a nested field; raises LyingPartyError if it is missing."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            raise LyingPartyError(f"the answer has no {'.'.join(names)}")
        value = value[name]
    return value


def read_text(value: Any, *names: str) -> str:
    found = field(value, *names)
    if not isinstance(found, str):
        raise LyingPartyError(f"{'.'.join(names)} is not text")
    return found


def read_integer(value: Any, *names: str) -> int:
    """Reads an integer, given as a number or as text."""
    found = field(value, *names)
    text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise LyingPartyError(f"{'.'.join(names)} is not a number")
    return int(text)


def read_bytes(value: Any, *names: str) -> bytes:
    """Reads base64; an absent field is empty."""
    found = field(value, *names)
    try:
        return b64decode(found or "", validate=True)
    except (Base64Error, ValueError, TypeError) as error:
        raise LyingPartyError(f"{'.'.join(names)} is not base64") from error


def read_hex(value: Any, *names: str) -> bytes:
    try:
        return bytes.fromhex(read_text(value, *names))
    except ValueError as error:
        raise LyingPartyError(f"{'.'.join(names)} is not hexadecimal") from error


def read_answer(result: Any) -> bytes:
    """Returns the application's answer to a `query`; raises NodeError with the application's error."""
    response = field(result, "response")
    code = response.get("code", 0) if isinstance(response, dict) else -1
    if code != 0:
        raise NodeError(1, read_text(response, "log"))
    return read_bytes(response, "value")
