"""The output of `kafka-verifiable-producer.sh`: which messages were acknowledged, and which failed.

It prints an event when a send ends, and none when it begins. Its values count from 0, with
`--value-prefix` after the prefix and a dot, so that at its end, when it says how many it has sent, those
that never ended are known, too. Shapes of events:
tools/src/main/java/org/apache/kafka/tools/VerifiableProducer.java of Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from veristream.errors import ModelError
from veristream.history.events import NONE, Operation, Outcome
from veristream.history.foreign.kafka.clients import Clients
from veristream.history.foreign.kafka.lines import Line
from veristream.history.foreign.kafka.view import digest_of

NAMES: Final = (
    "startup_complete",
    "producer_send_success",
    "producer_send_error",
    "shutdown_complete",
    "tool_data",
)
_VALUE: Final = re.compile(r"(?:-?[0-9]+\.)?(0|[1-9][0-9]{0,17})")
_DEFINITE: Final = (
    "RecordTooLargeException",
    "SerializationException",
    "InvalidTopicException",
    "TopicAuthorizationException",
    "BufferExhaustedException",
)
"""Exceptions after which a message was certainly not written; any other one may come after the write."""


class Producer:
    """Adds what one producer printed."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._process = clients.process(name)
        self._topics: dict[str, int] = {}
        self._prefix: str | None = None
        self._ended: set[int] = set()

    def take(self, lines: Iterable[Line]) -> bool:
        """Adds all events; returns whether the producer said how many messages it has sent."""
        data: Line | None = None
        last: Line | None = None
        for line in lines:
            if data is not None:
                raise line.error(f"{line.name} after tool_data, which comes last")
            match line.name:
                case "producer_send_success":
                    self._succeed(line)
                case "producer_send_error":
                    self._fail(line)
                case "tool_data":
                    data = line
                case "startup_complete" | "shutdown_complete":
                    pass
                case _:
                    raise line.error(
                        f"unknown event `{line.name}` of a producer", f"known are {', '.join(NAMES)}"
                    )
            last = line
        if data is not None:
            self._check_end(data)
        elif last is not None and not self._clients.incomplete:
            raise last.error(
                "the output of the producer ends here, without tool_data",
                "copy the file again; if the producer was killed, say --incomplete",
            )
        return data is not None

    def _number(self, line: Line) -> int:
        value = line.text("value")
        match = _VALUE.fullmatch(value)
        if match is None:
            raise line.error(f"value {value!r} is not of a verifiable producer")
        prefix = value[: match.start(1)]
        if self._prefix is None:
            self._prefix = prefix
        elif prefix != self._prefix:
            raise line.error(
                f"value {value!r} has another prefix than {self._prefix!r}", "name one file per producer"
            )
        number = int(match[1])
        if number in self._ended:
            raise line.error(
                f"message {value!r} ends twice", "name one file per producer, as it printed it"
            )
        self._ended.add(number)
        return number

    def _message(self, line: Line, number: int) -> int:
        """Returns the stream of a message that the line names."""
        topic = line.text("topic")
        stream = self._topics.setdefault(topic, self._clients.recording.stream(topic))
        self._clients.add_value(line, stream, line.text("value"), (self._process, number))
        return stream

    def _succeed(self, line: Line) -> None:
        number = self._number(line)
        stream = self._message(line, number)
        partition, offset = line.natural("partition"), line.natural("offset", NONE)
        if offset == NONE:
            self._clients.coverage.blind((stream, partition))
        fields = {"stream": stream, "partition": partition, "offset": offset}
        self._put(line, Outcome.OK, number, {**fields, "digest": digest_of(line.text("value"))})

    def _fail(self, line: Line) -> None:
        number = self._number(line)
        stream = self._message(line, number)
        exception = line.text("exception").rsplit(".", 1)[-1]
        message = line.fields.get("message")
        outcome = Outcome.FAIL if exception in _DEFINITE else Outcome.INDEFINITE
        told = exception if message is None else f"{exception}: {message}"[:200]
        fields = {"stream": stream, "error": told, "digest": digest_of(line.text("value"))}
        self._put(line, outcome, number, fields)

    def _put(self, line: Line, outcome: Outcome, number: int, fields: dict[str, Any]) -> None:
        message = {"producer": self._process, "number": number}
        self._clients.put(self._process, line, (Operation.SEND, outcome), **message, **fields)

    def _check_end(self, data: Line) -> None:
        sent, acked = data.natural("sent"), data.natural("acked")
        if acked > len(self._ended) or len(self._ended) > sent or any(each >= sent for each in self._ended):
            raise data.error(
                f"{sent} messages were sent, {acked} acknowledged, and the file has {len(self._ended)}",
                "lines are missing or too many: copy the file again",
            )
        missing = [number for number in range(sent) if number not in self._ended]
        if missing and len(self._topics) != 1:
            raise ModelError(
                f"{data.path}: {len(missing)} sends never ended, and their topic is not known",
                hint="run the producer for one topic, and until one message was sent",
            )
        for number in missing:
            (stream,) = self._topics.values()
            value = f"{self._prefix or ''}{number}"
            self._clients.add_value(data, stream, value, (self._process, number))
            self._put(data, Outcome.INVOKE, number, {"stream": stream, "digest": digest_of(value)})
