"""The output of `kafka-verifiable-consumer.sh`: assignments, what was received, and commits.

Only with `--verbose` does it print each record; without it, the history says nothing of receipts. A commit
began after the records before it were printed. Shapes of events:
tools/src/main/java/org/apache/kafka/tools/VerifiableConsumer.java of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from veristream.history.events import Operation, Outcome
from veristream.history.foreign.kafka.clients import Clients
from veristream.history.foreign.kafka.lines import Line, natural
from veristream.history.foreign.kafka.view import digest_of
from veristream.history.foreign.recording import Place

NAMES: Final = (
    "startup_complete",
    "partitions_assigned",
    "partitions_revoked",
    "record_data",
    "records_consumed",
    "offsets_committed",
    "shutdown_complete",
)


class Consumer:
    """Adds what one consumer printed."""

    def __init__(self, clients: Clients, name: str, group: str) -> None:
        self._clients = clients
        self._group = clients.recording.group(group)
        self._process = clients.process(name, self._group)
        self._polled: dict[Place, list[int]] = {}  # offsets of record_data before its records_consumed
        self._calls: dict[Place, int] = {}
        self._verbose: bool | None = None
        self._before: Line | None = None

    def take(self, lines: Iterable[Line]) -> bool:
        """Adds all events; returns whether receipts were printed, as `--verbose` does."""
        last: Line | None = None
        for line in lines:
            if last is not None and last.name == "shutdown_complete":
                raise line.error(
                    f"{line.name} after shutdown_complete, which comes last", "name one file per client"
                )
            self._take(line)
            last = line
        if last is not None and last.name == "shutdown_complete":
            if self._polled:
                raise last.error("record_data without its records_consumed", "copy the file again")
            self._clients.put(self._process, last, (Operation.CLOSE, Outcome.OK))
        elif last is not None and not self._clients.incomplete:
            raise last.error(
                "the output of the consumer ends here, without shutdown_complete",
                "copy the file again; if the consumer was killed, say --incomplete",
            )
        return self._verbose is not False

    def _take(self, line: Line) -> None:
        match line.name:
            case "startup_complete" | "shutdown_complete":
                pass
            case "partitions_assigned":
                self._move(line, Operation.ASSIGN)
            case "partitions_revoked":
                self._move(line, Operation.REVOKE)
            case "record_data":
                self._receive(line)
            case "records_consumed":
                self._check_poll(line)
            case "offsets_committed":
                self._commit(line)
            case _:
                raise line.error(
                    f"unknown event `{line.name}` of a consumer", f"known are {', '.join(NAMES)}"
                )
        self._before = line

    def _place(self, line: Line, fields: dict[str, Any]) -> Place:
        topic = fields.get("topic")
        if not isinstance(topic, str):
            raise line.error(f"`topic` of {line.name} is {topic!r}, not a string")
        return self._clients.recording.stream(topic), natural(line, fields, "partition")

    def _move(self, line: Line, operation: Operation) -> None:
        for each in line.items("partitions"):
            place = self._place(line, each)
            self._clients.coverage.seek(self._process, place)
            fields = {"stream": place[0], "partition": place[1], "group": self._group}
            self._clients.put(self._process, line, (operation, Outcome.OK), **fields)

    def _receive(self, line: Line) -> None:
        place, offset = self._place(line, line.fields), line.natural("offset")
        value = line.fields.get("value")
        producer, number = self._clients.messages.find(
            (place[0], 0), value if isinstance(value, str) else None
        )
        if place not in self._polled:
            self._polled[place] = []
            self._calls[place] = self._clients.recording.call(self._process)
        self._polled[place].append(offset)
        self._clients.coverage.receive(self._process, place, offset)
        self._clients.put(
            self._process, line, (Operation.RECEIVE, Outcome.OK), self._calls[place],
            stream=place[0], partition=place[1], offset=offset,
            producer=producer, number=number, group=self._group,
            digest=digest_of(value) if isinstance(value, str) else 0,
        )  # fmt: skip

    def _check_poll(self, line: Line) -> None:
        """Compares the summary of a poll with the records before it."""
        for each in line.items("partitions"):
            place = self._place(line, each)
            count = natural(line, each, "count", 1)
            told = (count, natural(line, each, "minOffset"), natural(line, each, "maxOffset"))
            offsets = self._polled.pop(place, [])
            verbose = bool(offsets)
            if self._verbose is None:
                self._verbose = verbose
            found = (len(offsets), offsets[0], offsets[-1]) if offsets else (0, 0, 0)
            if verbose != self._verbose or (verbose and found != told):
                raise line.error(
                    f"{count} records of partition {place[1]} were consumed, "
                    f"and {len(offsets)} are in the file",
                    "lines are missing: copy the file again",
                )
        if self._polled:
            raise line.error(
                "record_data of a partition that records_consumed does not have", "copy the file again"
            )

    def _commit(self, line: Line) -> None:
        success = line.fields.get("success")
        if not isinstance(success, bool):
            raise line.error(f"`success` of offsets_committed is {success!r}, not true or false")
        error = line.fields.get("error")
        told = str(error)[:200] if error is not None else ""
        outcome = Outcome.OK if success else Outcome.INDEFINITE
        for each in line.items("offsets"):
            place = self._place(line, each)
            call = self._clients.recording.call(self._process)
            fields = {
                "stream": place[0],
                "partition": place[1],
                "offset": natural(line, each, "offset"),
                "group": self._group,
            }
            before = self._before or line
            self._clients.put(self._process, before, (Operation.COMMIT, Outcome.INVOKE), call, **fields)
            self._clients.put(self._process, line, (Operation.COMMIT, outcome), call, **fields, error=told)
