"""Jepsen's workload for queues, such as RabbitMQ's: `:enqueue`, `:dequeue`, and `:drain` at the end.

What follows from how Jepsen's checker `total-queue` reads it:

- Dequeued messages were acknowledged by being taken (`basic.get` with automatic acknowledgement), so that
  the history says nothing of acknowledgements.
- An enqueue that failed was perhaps refused after the queue had taken it, so its outcome is indefinite.
- A drain that succeeded took all that there was. If a dequeue or a drain has an indefinite outcome, it may
  have taken a message that nobody wrote down; then no drain is said to have read to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from veristream.history.events import Operation, Outcome
from veristream.history.foreign.edn import LISTS, freeze
from veristream.history.foreign.jepsen.log_workload import HOST
from veristream.history.foreign.jepsen.operations import JepsenOp, Pair
from veristream.history.foreign.recording import Messages, Recording
from veristream.history.manifest import Process

FUNCTIONS: Final = ("enqueue", "dequeue", "drain")


class QueueWorkload:
    """Turns the operations of the workload into events."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._messages = Messages()
        self._numbers: dict[int | str, int] = {}  # of the enqueue that is under way
        self._drained: list[tuple[int, int, int]] = []  # process, call, and when it ended
        self._taken_unseen = False
        self._crashed: list[tuple[int, int]] = []  # process and time

    def begin(self, op: JepsenOp) -> None:
        """Takes an invocation of a client."""
        if op.f == "enqueue":
            process = self._process(op)
            number = self._messages.send(process, self._place(), freeze(op.value))
            if number is None:
                raise op.error(
                    f"value {op.value!r} is enqueued a second time",
                    "messages are known by their values, so each must be sent once",
                )
            self._numbers[op.process] = number

    def end(self, pair: Pair) -> None:
        """Takes an operation of a client as a whole."""
        invocation, completion = pair.invocation, pair.completion
        outcome = completion.outcome if completion else Outcome.INDEFINITE
        process = self._process(invocation)
        match invocation.f:
            case "enqueue":
                self._enqueue(process, pair)
            case "dequeue":
                if completion and outcome is Outcome.OK:
                    self._take(process, completion, [completion.value])
            case _:
                self._drain(process, pair)
        if invocation.f != "enqueue" and outcome is Outcome.INDEFINITE:
            self._taken_unseen = True
        if completion and outcome is Outcome.INDEFINITE:
            self._crashed.append((process, completion.time_ns))

    def finish(self) -> None:
        """Ends the drains, which read to the end unless something was taken that nobody wrote down."""
        outcome = Outcome.FAIL if self._taken_unseen else Outcome.OK
        for process, call, ended_ns in self._drained:
            time_ns = max(ended_ns, self._recording.last_time(process))
            self._put(process, call, Operation.READ_TO_END, outcome, time_ns)
        for process, crashed_ns in self._crashed:
            call, time_ns = (
                self._recording.call(process),
                max(crashed_ns, self._recording.last_time(process)),
            )
            self._recording.put((process, call), Operation.CLOSE, Outcome.OK, time_ns)

    def _process(self, op: JepsenOp) -> int:
        return self._recording.process(Process(f"process {op.process}", HOST))

    def _place(self) -> tuple[int, int]:
        return self._recording.stream("queue", offsets=False), 0

    def _put(
        self, process: int, call: int, operation: Operation, outcome: Outcome, time_ns: int, **fields: Any
    ) -> None:
        stream, partition = self._place()
        named = {"stream": stream, "partition": partition, **fields}
        self._recording.put((process, call), operation, outcome, time_ns, **named)

    def _enqueue(self, process: int, pair: Pair) -> None:
        invocation, completion = pair.invocation, pair.completion
        call = self._recording.call(process)
        message = {"producer": process, "number": self._numbers.pop(invocation.process)}
        self._put(process, call, Operation.SEND, Outcome.INVOKE, invocation.time_ns, **message)
        if completion is None:
            return
        if completion.value is not None and freeze(completion.value) != freeze(invocation.value):
            raise completion.error(f"{completion.value!r} completes {invocation.value!r}")
        outcome = Outcome.OK if completion.outcome is Outcome.OK else Outcome.INDEFINITE
        error = completion.more.get("error")
        told = "" if error is None else str(error)[:200]
        self._put(process, call, Operation.SEND, outcome, completion.time_ns, **message, error=told)

    def _drain(self, process: int, pair: Pair) -> None:
        invocation, completion = pair.invocation, pair.completion
        call = self._recording.call(process)
        self._put(process, call, Operation.READ_TO_END, Outcome.INVOKE, invocation.time_ns)
        if completion is None or completion.outcome is not Outcome.OK:
            return
        if not isinstance(completion.value, LISTS):
            raise completion.error(f":drain returned {completion.value!r}, not a list of values")
        self._take(process, completion, completion.value)
        self._drained.append((process, call, completion.time_ns))

    def _take(self, process: int, op: JepsenOp, values: Sequence[Any]) -> None:
        call = self._recording.call(process)
        for value in values:
            if value is None:
                raise op.error(f":{op.f} succeeded without a value")
            producer, number = self._messages.find(self._place(), freeze(value))
            message = {"producer": producer, "number": number}
            self._put(process, call, Operation.RECEIVE, Outcome.OK, op.time_ns, **message)
