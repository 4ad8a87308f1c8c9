"""What a history says of a property, in words: the step from what was seen to a `Judgement`.

The plain checker and the Spark job both collect `Evidence`, and both end with `conclude`, so that they say
the same. What the numbers of an `Evidence` count depends on the property; `EVIDENCE` says it for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from veristream.history.events import Event, Operation
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement, Witness, Word
from veristream.history.witnesses import KINDS, first_of_each


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of one property; the parts of several buckets add up, see `merge`.

    `operations` counts the events that `looks_at` accepts. `asked` is how many things the property could
    be decided of, and `undecided` how many of them were not, since the recording lacks what it takes; both
    are defined in `EVIDENCE`. `uncompared` says that two events of different processes had to be compared
    in real time, and could not.
    """

    operations: int = 0
    asked: int = 0
    undecided: int = 0
    uncompared: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    witnesses: tuple[Witness, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)


EVIDENCE: Mapping[Property, str] = {
    Property.DELIVERED: """asked: effective messages; in a queue, pairs of one with each subscription of
        its stream, or the message alone if there is no subscription. undecided: those among them that
        were neither received nor read to the end.""",
    Property.PROCESSED: """asked: groups with an OK `COMMIT` in a log. undecided: those among them
        without any `ACKNOWLEDGE` in a log, or with a `RECEIVE` of producer -1.""",
    Property.ONCE: """asked: messages that somebody sent (any outcome) and somebody received; in a
        queue, pairs of one with each subscription that received it.""",
    Property.ORDER: """asked: pairs that were compared. Sends: two neighbours by number, as in the
        definition. Receives of a log: two neighbours in a session. Receives of a queue: each first
        receipt for which an earlier one of the producer exists.""",
    Property.ONE_OFFSET: """asked: different offsets (stream, partition, offset) of messages whose
        producer is known.""",
    Property.NOTHING_NEW: "asked: `RECEIVE` events.",
    Property.READERS: "asked: `RECEIVE` events of streams with `readers`.",
    Property.ABORTED: """asked: messages of which a `SEND` has a transaction, in partitions of logs with
        a `RECEIVE` or an OK `READ_TO_END`. uncompared: a `RECEIVE` of one of them that is
        possible, not aborted and sent only in transactions, for which `precommitted read` was left out.""",
    Property.WHOLE: """asked: pairs of a reader and a committed transaction of which at least two
        acknowledged messages have offsets that the reader read to the end.""",
    Property.FENCED: """asked: transactional ids with an OK `OPEN` of two processes. uncompared: an OK
        `END_COMMIT` that is no anomaly, and an OK `OPEN` of its id with a higher epoch by a process
        that its own cannot be compared with.""",
    Property.HANGING: """asked: OK `READ_TO_END`s of logs that do not tell how long one is, of
        partitions with transactions, all of which were over before. undecided: those among them that no
        OK `READ_TO_END` follows that tells how long the log is.""",
    Property.EXCLUSIVE: """asked: groups of which two processes have an `ASSIGN` in a log. uncompared:
        two processes that cannot be compared have an `ASSIGN` of one partition in one group.""",
    Property.FORWARD: """asked: OK `COMMIT`s, and `ASSIGN`s with an offset, before which an OK `COMMIT`
        of the same group and partition ended. uncompared: an OK `COMMIT` or an `ASSIGN` with
        an offset, asked or not, that is no anomaly, and an OK `COMMIT` of the same group and partition with
        a higher offset by a process that its own cannot be compared with.""",
    Property.BOUNDED: """asked: `RECEIVE` events of queues, if the process has a limit then or the
        stream has `attempts_max`. uncompared: a process whose clock jumped received from a queue with
        `redelivery_ns` while it had a limit.""",
    Property.FINAL: """asked: messages of known producers with an OK `ACKNOWLEDGE`, once for each
        subscription that acknowledged them. uncompared: an OK `ACKNOWLEDGE`, and a `RECEIVE` of the
        message for the same subscription that is no anomaly, by processes that cannot be compared.""",
}
"""How the numbers of an `Evidence` are counted, for each property."""

_SEND, _RECEIVE, _ENDS = Operation.SEND, Operation.RECEIVE, (Operation.END_COMMIT, Operation.END_ABORT)
_SESSION = (Operation.ASSIGN, Operation.REVOKE, Operation.SEEK)
_TRANSACTION = (Operation.OPEN, Operation.BEGIN, *_ENDS)

LOOKED_AT: Mapping[Property, frozenset[Operation]] = {
    Property.DELIVERED: frozenset({_SEND, _RECEIVE, Operation.READ_TO_END, *_ENDS}),
    Property.PROCESSED: frozenset(
        {_SEND, _RECEIVE, Operation.ACKNOWLEDGE, Operation.COMMIT, Operation.ASSIGN}
    ),
    Property.ONCE: frozenset({_SEND, _RECEIVE}),
    Property.ORDER: frozenset({_SEND, _RECEIVE, *_SESSION}),
    Property.ONE_OFFSET: frozenset({_SEND, _RECEIVE}),
    Property.NOTHING_NEW: frozenset({_SEND, _RECEIVE}),
    Property.READERS: frozenset({_RECEIVE}),
    Property.ABORTED: frozenset({_SEND, _RECEIVE, *_ENDS}),
    Property.WHOLE: frozenset({_SEND, _RECEIVE, Operation.READ_TO_END, Operation.BEGIN, *_ENDS}),
    Property.FENCED: frozenset(_TRANSACTION),
    Property.HANGING: frozenset({_SEND, Operation.READ_TO_END, Operation.BEGIN, *_ENDS}),
    Property.EXCLUSIVE: frozenset({Operation.ASSIGN, Operation.REVOKE, Operation.CLOSE}),
    Property.FORWARD: frozenset({Operation.COMMIT, Operation.ASSIGN}),
    Property.BOUNDED: frozenset({_RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT, Operation.READY}),
    Property.FINAL: frozenset({_RECEIVE, Operation.ACKNOWLEDGE}),
}
"""The operations whose events, of all outcomes, are counted as looked at."""

ONLY_LOGS = frozenset(
    {
        Property.PROCESSED,
        Property.ONE_OFFSET,
        Property.ABORTED,
        Property.WHOLE,
        Property.HANGING,
        Property.EXCLUSIVE,
        Property.FORWARD,
    }
)
"""Properties for which events of queues are not looked at."""

ONLY_QUEUES = frozenset({Property.BOUNDED, Property.FINAL})
"""Properties for which events of logs are not looked at."""


def looks_at(asked: Property, operation: Operation, is_log: bool | None) -> bool:
    """Says whether an event counts as looked at; `is_log` is None for an event without a stream.

    `only who may reads` looks only at streams with `readers` besides; the caller leaves the others out.
    """
    if operation not in LOOKED_AT[asked]:
        return False
    if is_log is None:
        return True
    return asked not in (ONLY_QUEUES if is_log else ONLY_LOGS)


def merge(parts: list[Evidence]) -> Evidence:
    """Adds up what was seen in parts of a history; keeps the first `WITNESSES` witnesses of each kind."""
    counts: dict[str, int] = {}
    notes: dict[str, int] = {}
    for part in parts:
        for kind, count in part.counts.items():
            counts[kind] = counts.get(kind, 0) + count
        for kind, count in part.notes.items():
            notes[kind] = notes.get(kind, 0) + count
    return Evidence(
        operations=sum(part.operations for part in parts),
        asked=sum(part.asked for part in parts),
        undecided=sum(part.undecided for part in parts),
        uncompared=any(part.uncompared for part in parts),
        counts=counts,
        witnesses=first_of_each(witness for part in parts for witness in part.witnesses),
        notes=notes,
    )


def conclude(asked: Property, manifest: Manifest, evidence: Evidence) -> Judgement:
    """Returns the judgement: violated if there is an anomaly, else held if nothing stands against it."""
    counts = {kind: evidence.counts[kind] for kind in sorted(evidence.counts) if evidence.counts[kind]}
    if counts:
        word = Word.VIOLATED
        reason = ", ".join(tell_count(kind, count) for kind, count in counts.items())
    elif hindrance := tell_hindrance(asked, manifest, evidence):
        word, reason = Word.NOT_OBSERVABLE, hindrance
    else:
        word, reason = Word.HELD, tell_held(asked, evidence.asked)
    return Judgement(
        property=asked.value,
        word=word,
        reason=reason,
        operations=evidence.operations,
        counts=counts,
        witnesses=evidence.witnesses,
        notes={kind: evidence.notes[kind] for kind in sorted(evidence.notes) if evidence.notes[kind]},
    )


def tell_count(kind: str, count: int) -> str:
    """Returns for example `2 acknowledged messages were lost`."""
    one, many = KINDS[kind]
    return f"{count} {one if count == 1 else many}"


def tell_hindrance(asked: Property, manifest: Manifest, evidence: Evidence) -> str:
    """Returns why a history without an anomaly does not show that the property held; empty if it does."""
    if asked in _OF_TRANSACTIONS and not manifest.transactions_recorded:
        return "the recording does not say how transactions ended: record the producers' transactions"
    if asked is Property.READERS and all(stream.readers is None for stream in manifest.streams):
        return "the manifest does not say who may read: give the streams `readers`"
    if asked is Property.HANGING and not manifest.producers_complete:
        return "not every producer was recorded, so that a transaction may be open that nobody knows of"
    if not evidence.asked:
        return NOTHING[asked]
    if not manifest.complete and asked in NEED_COMPLETE:
        return "the recording did not come to its end, so that what is missing in it may have happened"
    if asked is Property.NOTHING_NEW and not manifest.producers_complete:
        return "not every producer was recorded, so that an unknown message may be one of theirs"
    if evidence.undecided:
        return f"{evidence.undecided} of {evidence.asked} {UNDECIDED[asked]}"
    if evidence.uncompared:
        return (
            "clocks of different processes had to be compared, and could not be: a clock jumped, "
            "or the processes are not known to be on one host"
        )
    return ""


NEED_COMPLETE = frozenset(Property) - {Property.ONCE, Property.ONE_OFFSET, Property.READERS, Property.FINAL}
"""Properties that cannot be held in a recording that is not `complete`; `witnesses.ABSENCE` says why."""

_OF_TRANSACTIONS = frozenset({Property.ABORTED, Property.WHOLE, Property.HANGING})
"""Properties that can only be decided if transactions are recorded."""

NOTHING: Mapping[Property, str] = {
    Property.DELIVERED: "no message was acknowledged, so that none could be lost",
    Property.PROCESSED: "no group committed an offset",
    Property.ONCE: "no message that was sent was received",
    Property.ORDER: "no two messages of a partition were sent by one producer or received by one process",
    Property.ONE_OFFSET: "no offset of a message is known",
    Property.NOTHING_NEW: "nothing was received",
    Property.READERS: "nothing was received from a stream that has `readers`",
    Property.ABORTED: "no message was sent in a transaction to a partition that somebody read",
    Property.WHOLE: (
        "no reader read two messages of a committed transaction to the end: "
        "read each partition to its end after the last transaction"
    ),
    Property.FENCED: "no two processes opened one transactional id",
    Property.HANGING: (
        "no partition was read to its end when every transaction in it was over: "
        "end each transaction, then read each partition to its end"
    ),
    Property.EXCLUSIVE: "no group has two members with an assignment",
    Property.FORWARD: "no commit followed another one, and no assignment with an offset followed a commit",
    Property.BOUNDED: (
        "no process that received from a queue has a limit, and no stream has a maximum of attempts"
    ),
    Property.FINAL: "no message of a queue was acknowledged by a consumer",
}
"""Why a property is not observable if there is nothing that it could be decided of."""

UNDECIDED: Mapping[Property, str] = {
    Property.DELIVERED: (
        "acknowledged messages were neither received nor read to the end: "
        "read each partition to its end after the last send"
    ),
    Property.PROCESSED: (
        "groups that committed have no acknowledgement, or received messages of unknown producers: "
        "record when a message has been processed"
    ),
    Property.HANGING: (
        "reads to the end were not followed by one that tells how long the log is: "
        "record a read from its end to its end"
    ),
}
"""What follows `N of M` if something could not be decided."""

_HELD: Mapping[Property, tuple[str, str]] = {
    Property.DELIVERED: ("acknowledged message was received", "acknowledged messages were received"),
    Property.PROCESSED: (
        "group processed all that it committed",
        "groups processed all that they committed",
    ),
    Property.ONCE: ("received message came once", "received messages came once each"),
    Property.ORDER: ("pair of messages was in order", "pairs of messages were in order"),
    Property.ONE_OFFSET: ("offset had one message", "offsets had one message each"),
    Property.NOTHING_NEW: (
        "received message had been sent as it was",
        "received messages had been sent as they were",
    ),
    Property.READERS: (
        "message was received by a permitted reader",
        "messages were received by permitted readers",
    ),
    Property.ABORTED: (
        "message of a transaction was never read too early or in vain",
        "messages of transactions were never read too early or in vain",
    ),
    Property.WHOLE: ("reading of a transaction was whole", "readings of transactions were whole"),
    Property.FENCED: (
        "transactional id had two processes, and none committed once it was fenced",
        "transactional ids had two processes, and none committed once it was fenced",
    ),
    Property.HANGING: (
        "read to the end was not held up by a transaction",
        "reads to the end were not held up by transactions",
    ),
    Property.EXCLUSIVE: (
        "group never assigned a partition to two members at a time",
        "groups never assigned a partition to two members at a time",
    ),
    Property.FORWARD: (
        "commit or assignment was not below an earlier commit",
        "commits and assignments were not below earlier ones",
    ),
    Property.BOUNDED: ("delivery was within its limits", "deliveries were within their limits"),
    Property.FINAL: (
        "acknowledged message was never delivered again",
        "acknowledged messages were never delivered again",
    ),
}


def tell_held(asked: Property, count: int) -> str:
    """Returns over what the property held, for example `1 offset had one message`."""
    one, many = _HELD[asked]
    return f"{count} {one if count == 1 else many}"


def tell_index(process: str, expected: int, found: Event) -> str:
    """Returns what is wrong if the next index of a process is not the expected one."""
    if found.index < expected:
        return f"process `{process}` has two events with index {found.index}"
    return f"process `{process}` has no event with index {expected}, but one with {found.index}"


INDEX_HINT = (
    "events are missing or doubled: copy the history again; "
    'if its recording broke off, say `"complete": false` in history.json'
)
"""What to do about a gap, and about a doubled event, which is an error in an incomplete recording, too."""
