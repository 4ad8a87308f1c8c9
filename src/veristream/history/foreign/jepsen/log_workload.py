"""Jepsen's workload for logs (`jepsen.tests.kafka`): sends, polls, and transactions of both.

What follows from how Jepsen records:

- An operation took place somewhere between its invocation and its completion. What it received has the time
  of the completion, and the commit of its transaction began, as far as others can know, at the invocation.
- Each process is a client of its own, with a producer and a consumer. After `:info` it is closed.
- `:assign` keeps the positions of partitions that it keeps. Under `:subscribe` a rebalance may come with
  every poll, so each operation begins a session; within one, `:rebalance-log` says which keys moved. A poll
  that did not succeed leaves the position open.
- A key is a partition: a natural number is one of the stream `keys`, any other key a stream of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from veristream.history.events import NONE, Operation, Outcome
from veristream.history.foreign.edn import LISTS, freeze
from veristream.history.foreign.jepsen.operations import JepsenOp, Pair
from veristream.history.foreign.recording import Coverage, Messages, Place, Recording
from veristream.history.manifest import Process

FUNCTIONS: Final = ("send", "poll", "txn", "assign", "subscribe", "crash", "debug-topic-partitions")
_DATA: Final = ("send", "poll", "txn")
_PARTITIONS_MAX: Final = 2**31
HOST: Final = "control node"
"""All times of a Jepsen history are from the clock of the node that runs the test."""


@dataclass(slots=True)
class _Client:
    """A process of Jepsen: its mode of reading, and the partitions whose session goes on."""

    process: int
    mode: str = ""
    assigned: frozenset[Place] = frozenset()
    live: set[Place] = field(default_factory=set)
    known: set[Place] = field(default_factory=set)
    transactions: int = 0


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message that an operation sends: its fields, and the number of its call."""

    place: Place
    value: Any
    number: int
    call: int


class LogWorkload:
    """Turns the operations of the workload into events."""

    def __init__(self, recording: Recording, transactions: bool) -> None:
        self._recording = recording
        self._transactions = transactions
        self._messages = Messages()
        self._coverage = Coverage()
        self._clients: dict[int | str, _Client] = {}
        self._sent: dict[int | str, list[_Sent]] = {}  # by the process, while the operation is under way
        self._crashed: list[tuple[int, int]] = []  # process and time

    def begin(self, op: JepsenOp) -> None:
        """Takes an invocation of a client."""
        client = self._client(op.process)
        if op.f in ("send", "txn"):
            calls: dict[Place, int] = {}
            sent = []
            for mop in _micro_operations(op):
                if mop[0] == "send":
                    place = self._place(op, mop[1])
                    if place not in calls:
                        calls[place] = self._recording.call(client.process)
                    value = freeze(mop[2])
                    number = self._messages.send(client.process, place, value)
                    if number is None:
                        raise op.error(
                            f"value {mop[2]!r} is sent to key {mop[1]!r} a second time",
                            "messages are known by their values, so each must be sent once",
                        )
                    sent.append(_Sent(place, value, number, calls[place]))
            self._sent[op.process] = sent

    def end(self, pair: Pair) -> None:
        """Takes an operation of a client as a whole."""
        invocation, completion = pair.invocation, pair.completion
        client = self._client(invocation.process)
        outcome = completion.outcome if completion else Outcome.INDEFINITE
        match invocation.f:
            case "assign" | "subscribe":
                self._assign(client, invocation, outcome, completion)
            case "send" | "poll" | "txn":
                self._data(client, pair, outcome)
            case "crash" | "debug-topic-partitions":
                pass
        if completion and (outcome is Outcome.INDEFINITE or completion.more.get("end-process?") is True):
            self._crashed.append((client.process, completion.time_ns))

    def finish(self) -> None:
        """Adds what is known only at the end: how far each reader has read, and who crashed."""
        self._coverage.put(self._recording)
        for process, crashed_ns in self._crashed:
            time_ns = max(crashed_ns, self._recording.last_time(process))
            call = (process, self._recording.call(process))
            self._recording.put(call, Operation.CLOSE, Outcome.OK, time_ns)

    def _client(self, process: int | str) -> _Client:
        client = self._clients.get(process)
        if client is None:
            client = _Client(self._recording.process(Process(f"process {process}", HOST)))
            self._clients[process] = client
        return client

    def _place(self, op: JepsenOp, key: Any) -> Place:
        if isinstance(key, bool) or not isinstance(key, int | str):
            raise op.error(f"key {key!r} is neither a number nor a string")
        text = str(key)
        if (
            text.isascii()
            and text.isdigit()
            and (text == "0" or text[0] != "0")
            and int(text) < _PARTITIONS_MAX
        ):
            return self._recording.stream("keys"), int(text)
        return self._recording.stream(text), 0

    # Reading.

    def _assign(self, client: _Client, op: JepsenOp, outcome: Outcome, completion: JepsenOp | None) -> None:
        if not isinstance(op.value, (*LISTS, frozenset)):
            raise op.error(f":{op.f} has {op.value!r}, not a list of keys")
        wanted = frozenset(self._place(op, key) for key in op.value)
        time_ns = completion.time_ns if completion else op.time_ns
        if outcome is not Outcome.OK:
            self._leave(client, client.live)
            return
        client.mode = op.f
        kept = wanted & client.assigned if op.f == "assign" else frozenset[Place]()
        client.assigned = wanted if op.f == "assign" else frozenset()
        self._leave(client, client.live - kept)
        if op.f == "assign" and op.more.get("seek-to-beginning?") is True:
            for place in sorted(wanted):
                self._seek(client, place, time_ns, 0)

    def _leave(self, client: _Client, places: Iterable[Place]) -> None:
        """Ends sessions: what the client receives there next does not follow what it received before."""
        for place in list(places):
            client.live.discard(place)
            self._coverage.seek(client.process, place)

    def _seek(self, client: _Client, place: Place, time_ns: int, offset: int = NONE) -> None:
        call = (client.process, self._recording.call(client.process))
        fields = {"stream": place[0], "partition": place[1], "offset": offset}
        self._recording.put(call, Operation.SEEK, Outcome.OK, time_ns, **fields)
        self._coverage.seek(client.process, place, offset)
        client.live.add(place)
        client.known.add(place)

    def _receive(
        self, client: _Client, op: JepsenOp, calls: dict[Place, int], record: tuple[Place, Any]
    ) -> None:
        place, pair = record
        if not isinstance(pair, LISTS) or len(pair) != 2 or not _is_offset(pair[0]):
            raise op.error(f"a poll returned {pair!r}, not [offset value]")
        offset, value = pair[0], freeze(pair[1])
        if place not in client.live:
            if place in client.known:
                self._seek(client, place, op.time_ns)
            client.live.add(place)
            client.known.add(place)
        if place not in calls:
            calls[place] = self._recording.call(client.process)
        producer, number = self._messages.find(place, value)
        self._coverage.receive(client.process, place, offset)
        self._recording.put(
            (client.process, calls[place]), Operation.RECEIVE, Outcome.OK, op.time_ns,
            stream=place[0], partition=place[1], offset=offset, producer=producer, number=number,
        )  # fmt: skip

    def _polls(
        self, client: _Client, op: JepsenOp, mops: Sequence[Any], own: set[tuple[Place, Any]]
    ) -> None:
        """Adds what the operation received, but for its own messages, which `_own_reads` has added."""
        moved, moved_all = self._moved(op)
        calls: dict[Place, int] = {}
        logged = "rebalance-log" in op.more
        if client.mode != "assign":
            self._leave(client, client.live)
        for mop in mops:
            if mop[0] != "poll":
                continue
            if client.mode != "assign" and not logged:
                self._leave(client, client.live)
            for place, pairs in self._records(op, mop):
                for pair in pairs:
                    if moved_all or place in moved:
                        self._leave(client, (place,))
                    if (
                        own
                        and isinstance(pair, LISTS)
                        and len(pair) == 2
                        and (place, freeze(pair[1])) in own
                    ):
                        self._leave(client, (place,))
                        continue
                    self._receive(client, op, calls, (place, pair))
        if op.outcome is not Outcome.OK:
            self._leave(client, client.live)

    def _records(self, op: JepsenOp, mop: Sequence[Any]) -> Iterable[tuple[Place, Sequence[Any]]]:
        if len(mop) < 2 or mop[1] is None:
            if op.outcome is Outcome.OK:
                raise op.error("a poll that succeeded has no result")
            return
        if len(mop) > 2 or not isinstance(mop[1], dict):
            raise op.error(f"a poll has {mop[1]!r}, not a map of keys to messages")
        for key, pairs in mop[1].items():
            if not isinstance(pairs, LISTS):
                raise op.error(f"a poll has {pairs!r} for key {key!r}, not a list of [offset value]")
            yield self._place(op, key), pairs

    def _moved(self, op: JepsenOp) -> tuple[set[Place], bool]:
        """Returns the partitions that were rebalanced during the operation, or that all may have been."""
        log = op.more.get("rebalance-log") or ()
        if not isinstance(log, LISTS) or not all(isinstance(entry, dict) for entry in log):
            raise op.error(f":rebalance-log is {log!r}, not a list of maps")
        if any(not isinstance(entry.get("keys"), (*LISTS, frozenset)) for entry in log):
            return set(), True
        return {self._place(op, key) for entry in log for key in entry["keys"]}, False

    # Sending.

    def _data(self, client: _Client, pair: Pair, outcome: Outcome) -> None:
        invocation, completion = pair.invocation, pair.completion
        sent = self._sent.pop(invocation.process, [])
        mops = _match(pair)
        transaction = NONE
        if self._transactions and sent:
            transaction = client.transactions
            client.transactions += 1
        own = self._own(sent, completion, mops) if transaction != NONE else set()
        ending = self._begin(client, invocation, (transaction, outcome), sent)
        if own and completion:
            self._own_reads(client, invocation, completion, mops, own)
        if ending is not None:
            operation, call = ending
            fields = {"transaction": transaction}
            self._recording.put(
                (client.process, call), operation, Outcome.INVOKE, invocation.time_ns, **fields
            )
        if completion is None:
            self._leave(client, client.live)
            return
        self._results(client, completion, (transaction, sent), mops)
        if any(mop[0] == "poll" for mop in mops):
            self._polls(client, completion, mops, own)
        if ending is not None:
            ended = Outcome.INDEFINITE if outcome is Outcome.INDEFINITE else Outcome.OK
            fields = {"transaction": transaction}
            self._recording.put((client.process, ending[1]), ending[0], ended, completion.time_ns, **fields)

    def _begin(
        self, client: _Client, op: JepsenOp, transaction: tuple[int, Outcome], sent: Sequence[_Sent]
    ) -> tuple[Operation, int] | None:
        """Adds what may have begun with the invocation; returns how the transaction ends, and its call."""
        number, outcome = transaction
        if number != NONE:
            call = (client.process, self._recording.call(client.process))
            for each in (Outcome.INVOKE, Outcome.OK):
                self._recording.put(call, Operation.BEGIN, each, op.time_ns, transaction=number)
        for message in sent:
            self._recording.put(
                (client.process, message.call), Operation.SEND, Outcome.INVOKE, op.time_ns,
                stream=message.place[0], partition=message.place[1],
                producer=client.process, number=message.number, transaction=number,
            )  # fmt: skip
        if number == NONE:
            return None
        operation = Operation.END_ABORT if outcome is Outcome.FAIL else Operation.END_COMMIT
        return operation, self._recording.call(client.process)

    def _results(
        self, client: _Client, op: JepsenOp, sending: tuple[int, Sequence[_Sent]], mops: Sequence[Any]
    ) -> None:
        """Adds what became of each message.

        In a transaction that was not committed, each may have been stored. The offsets that Jepsen keeps of
        those are not taken: its checker does not trust them, either.
        """
        transaction, sent = sending
        outcome = op.outcome
        if transaction != NONE and outcome is Outcome.FAIL:
            outcome = Outcome.INDEFINITE
        for message, mop in zip(sent, (mop for mop in mops if mop[0] == "send"), strict=True):
            told = _is_pair(mop) and freeze(mop[2]) != message.value
            offset = mop[2][0] if told and outcome is Outcome.OK else None
            if outcome is Outcome.OK and offset is None:
                self._coverage.blind(message.place)
            self._recording.put(
                (client.process, message.call), Operation.SEND, outcome, op.time_ns,
                stream=message.place[0], partition=message.place[1],
                offset=NONE if offset is None else offset,
                producer=client.process, number=message.number, transaction=transaction,
                error=_error(op),
            )  # fmt: skip

    def _own(
        self, sent: Sequence[_Sent], completion: JepsenOp | None, mops: Sequence[Any]
    ) -> set[tuple[Place, Any]]:
        """Returns the messages that a transaction both sent and received, before it ended."""
        if completion is None:
            return set()
        mine = {(message.place, message.value) for message in sent}
        received = {
            (place, freeze(pair[1]))
            for mop in mops
            if mop[0] == "poll"
            for place, pairs in self._records(completion, mop)
            for pair in pairs
            if isinstance(pair, LISTS) and len(pair) == 2
        }
        return mine & received

    def _own_reads(
        self,
        client: _Client,
        invocation: JepsenOp,
        completion: JepsenOp,
        mops: Sequence[Any],
        own: set[tuple[Place, Any]],
    ) -> None:
        """Adds receipts of the transaction's own messages: they were certainly before its commit began.

        They are taken out of their order, so each is a session of its own.
        """
        for mop in mops:
            if mop[0] != "poll":
                continue
            for place, pairs in self._records(completion, mop):
                for offset, value in pairs:
                    if (place, freeze(value)) not in own:
                        continue
                    if not _is_offset(offset):
                        raise completion.error(f"a poll returned offset {offset!r}")
                    self._leave(client, (place,))
                    self._seek(client, place, invocation.time_ns)
                    producer, number = self._messages.find(place, freeze(value))
                    call = (client.process, self._recording.call(client.process))
                    self._recording.put(
                        call, Operation.RECEIVE, Outcome.OK, invocation.time_ns,
                        stream=place[0], partition=place[1],
                        offset=offset, producer=producer, number=number,
                    )  # fmt: skip
                    self._leave(client, (place,))


def _micro_operations(op: JepsenOp) -> Sequence[Any]:
    """Returns the micro-operations of an invocation or a completion, checked by their form."""
    if not isinstance(op.value, LISTS):
        raise op.error(f":{op.f} has {op.value!r}, not a list of [:send key value] and [:poll]")
    for mop in op.value:
        if not isinstance(mop, LISTS) or not mop or mop[0] not in ("send", "poll"):
            raise op.error(f"unknown micro-operation {mop!r}", "known are [:send key value] and [:poll]")
        if mop[0] == "send" and len(mop) != 3:
            raise op.error(f"{mop!r} is not [:send key value]")
        if op.f != "txn" and mop[0] != op.f:
            raise op.error(f":{op.f} contains {mop!r}")
    return op.value


def _match(pair: Pair) -> Sequence[Any]:
    """Returns the micro-operations of the completion, which must be those of the invocation."""
    invoked = _micro_operations(pair.invocation)
    completion = pair.completion
    if completion is None or (completion.value is None and completion.outcome is not Outcome.OK):
        return invoked
    completed = _micro_operations(completion)
    if len(invoked) != len(completed):
        raise completion.error(f"{len(completed)} micro-operations complete {len(invoked)} invoked ones")
    for before, after in zip(invoked, completed, strict=True):
        same = before[0] == after[0]
        if same and before[0] == "send":
            value = after[2][1] if _is_pair(after) else after[2]
            same = str(before[1]) == str(after[1]) and (value == before[2] or after[2] == before[2])
        if not same:
            raise completion.error(f"{after!r} completes {before!r}: one of the two is wrong")
    return completed


def _is_pair(mop: Sequence[Any]) -> bool:
    """Whether a send says [offset value]."""
    pair = mop[2]
    return isinstance(pair, LISTS) and len(pair) == 2 and (pair[0] is None or _is_offset(pair[0]))


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _error(op: JepsenOp) -> str:
    error = op.more.get("error")
    return "" if error is None else str(error)[:200]
