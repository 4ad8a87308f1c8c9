"""Recording a client of your own, such as pynsq's, without touching its connections.

    client = OutsideClient(recorder, node, "orders", "billing")
    reader = nsq.Reader(message_handler=client.handling(handle), topic="orders", channel="billing", ...)
    writer.pub(*client.publishing(b"body"))

Nobody sees here which FIN nsqd refuses, so each is indefinite, and RDY is not known: an audit can say what
was lost, doubled or out of order, and not what was delivered after it was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from veristream.history.events import Operation
from veristream.history.identity import decode_payload, encode_payload
from veristream.recording.digest import digest
from veristream.recording.journal import Call, Fields
from veristream.recording.nsq.clients import Node, NsqRecorder, code_has_no_effect

UNKNOWN = "the client does not tell nsqd's answer"


class Delivered(Protocol):
    """A message as pynsq hands it over."""

    @property
    def body(self) -> bytes: ...
    @property
    def attempts(self) -> int: ...


M = TypeVar("M", bound=Delivered)


class OutsideClient:
    """A client at one nsqd, as far as its handler and its callbacks tell; `channel` is of its consumer."""

    def __init__(
        self, recorder: NsqRecorder, node: Node, topic: str, channel: str = "", name: str = "client"
    ) -> None:
        group = recorder.recording.group(channel) if channel else None
        self.journal = recorder.recording.journal(f"{name}@{node.name}", member_of=group)
        self._place = recorder.place(node, topic)
        self._topic = topic
        self._group = group
        self._next = 0

    def publishing(self, body: bytes) -> tuple[str, bytes, Callable[[Any, object], None]]:
        """Returns what pynsq's `pub` takes: topic, payload, and the callback that learns the answer."""
        number, self._next = self._next, self._next + 1
        payload = encode_payload(self.journal.process, number, body)
        fields: Fields = {
            **self._place,
            "producer": self.journal.process,
            "number": number,
            "digest": digest(payload),
        }
        call = self.journal.invoke(Operation.SEND, **fields)

        def answered(connection: Any, answer: object) -> None:
            self._end(call, answer)

        return self._topic, payload, answered

    def handling(self, handle: Callable[[M], bool]) -> Callable[[M], bool]:
        """Returns a handler that notes each message, and its FIN (True) or REQ (False) before it is sent.

        A handler that raises has given the message back.
        """

        def handled(message: M) -> bool:
            producer, number = decode_payload(message.body)
            fields: Fields = {**self._place, "producer": producer, "number": number}
            if self._group is not None:
                fields["group"] = self._group
            received: Fields = {**fields, "digest": digest(message.body), "attempt": message.attempts}
            self.journal.note(Operation.RECEIVE, **received)
            is_done = False
            try:
                is_done = handle(message)
            finally:
                operation = Operation.ACKNOWLEDGE if is_done else Operation.REJECT
                call = self.journal.invoke(operation, **fields)
                self.journal.indefinite(call, UNKNOWN)
            return is_done

        return handled

    def close(self) -> None:
        """Says that the client has ended."""
        self.journal.note(Operation.CLOSE)

    def _end(self, call: Call, answer: object) -> None:
        if answer == b"OK":
            self.journal.ok(call)
            return
        said = answer.args[0] if isinstance(answer, Exception) and answer.args else answer
        told = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        code, _, text = told.partition(" ")
        if code_has_no_effect(code, text):
            self.journal.fail(call, told)
        else:
            self.journal.indefinite(call, told)
