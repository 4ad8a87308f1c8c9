"""Kinds of anomalies, the sentence of each, and which events show it.

For every anomaly that is told, `EVENTS` says which events its witness has. "First" among events is always
by `order_of`: time, then process, then index; and so are the events of a witness ordered. A judgement keeps
the witnesses of the first `WITNESSES` anomalies of each kind, in the order of `Anomaly`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Manifest
from veristream.history.properties import Property
from veristream.history.verdicts import Anomaly, Witness

WITNESSES = 3
"""How many anomalies of each kind a judgement tells with their events."""

HELD_SHOWN = 8
"""How many of the messages that are in flight the witness of an `overrun` shows at most."""

KINDS: Mapping[str, tuple[str, str]] = {
    "lost write": ("acknowledged message was lost", "acknowledged messages were lost"),
    "unprocessed": (
        "message was never processed, although a commit is past it",
        "messages were never processed, although commits are past them",
    ),
    "duplicate": ("message came twice", "messages came twice"),
    "nonmonotonic send": ("send was stored before an earlier one", "sends were stored before earlier ones"),
    "int-nonmonotonic send": (
        "send was stored before an earlier one of the same call",
        "sends were stored before earlier ones of the same call",
    ),
    "nonmonotonic poll": ("receive was out of order", "receives were out of order"),
    "int-nonmonotonic poll": (
        "receive was out of order within one call",
        "receives were out of order within one call",
    ),
    "skipped poll": ("receive skipped a message", "receives skipped messages"),
    "int-skipped poll": (
        "receive skipped a message within one call",
        "receives skipped messages within one call",
    ),
    "inconsistent offset": ("offset had two messages", "offsets had two messages"),
    "unexpected": ("received message was never sent", "received messages were never sent"),
    "altered": ("received message had other bytes", "received messages had other bytes"),
    "leaked": ("process read what it must not read", "processes read what they must not read"),
    "aborted read": ("receive of an aborted message", "receives of aborted messages"),
    "precommitted read": (
        "receive of a message before its transaction was committed",
        "receives of messages before their transactions were committed",
    ),
    "torn transaction": (
        "committed transaction was read in part",
        "committed transactions were read in part",
    ),
    "G1c": (
        "cycle of transactions that read of each other",
        "cycles of transactions that read of each other",
    ),
    "zombie commit": ("commit of a fenced producer", "commits of fenced producers"),
    "hanging transaction": (
        "read to the end stopped before messages that were there, though no transaction was under way",
        "reads to the end stopped before messages that were there, though no transaction was under way",
    ),
    "overlapping assignment": (
        "assignment of a partition that another member held",
        "assignments of partitions that another member held",
    ),
    "lost commit": ("assignment below an earlier commit", "assignments below earlier commits"),
    "backward commit": ("commit below an earlier one", "commits below earlier ones"),
    "overrun": ("delivery above the limit in flight", "deliveries above the limit in flight"),
    "too many attempts": (
        "delivery above the maximum of attempts",
        "deliveries above the maximum of attempts",
    ),
    "zombie delivery": (
        "delivery of a message that was acknowledged",
        "deliveries of messages that were acknowledged",
    ),
}
"""Every kind of anomaly: what one is, and what several are; a number goes before it."""

KINDS_OF: Mapping[Property, tuple[str, ...]] = {
    Property.DELIVERED: ("lost write",),
    Property.PROCESSED: ("unprocessed",),
    Property.ONCE: ("duplicate",),
    Property.ORDER: (
        "nonmonotonic send",
        "int-nonmonotonic send",
        "nonmonotonic poll",
        "int-nonmonotonic poll",
        "skipped poll",
        "int-skipped poll",
    ),
    Property.ONE_OFFSET: ("inconsistent offset",),
    Property.NOTHING_NEW: ("unexpected", "altered"),
    Property.READERS: ("leaked",),
    Property.ABORTED: ("aborted read", "precommitted read"),
    Property.WHOLE: ("torn transaction", "G1c"),
    Property.FENCED: ("zombie commit",),
    Property.HANGING: ("hanging transaction",),
    Property.EXCLUSIVE: ("overlapping assignment",),
    Property.FORWARD: ("lost commit", "backward commit"),
    Property.BOUNDED: ("overrun", "too many attempts"),
    Property.FINAL: ("zombie delivery",),
}
"""The kinds that violate each property."""

ABSENCE = frozenset(
    {
        "lost write",
        "unprocessed",
        "nonmonotonic poll",
        "int-nonmonotonic poll",
        "skipped poll",
        "int-skipped poll",
        "unexpected",
        "precommitted read",
        "torn transaction",
        "hanging transaction",
        "overlapping assignment",
        "overrun",
        "zombie commit",
        "backward commit",
    }
)
"""Kinds that rest on an event that is not there. In a recording that is not `complete` it may be missing,
so these are not looked for, and what else their properties have can be violated, but not held."""

EVENTS: Mapping[str, str] = {
    "lost write": """the first OK `SEND` that makes the message effective; the first OK `END_COMMIT` of
        its transaction, if it has one; the first OK `READ_TO_END` that covers it.""",
    "unprocessed": """the first OK `SEND` that makes the message effective, else its first `RECEIVE` by
        the group; the first OK `COMMIT` of the group above its lowest offset that is asked for.""",
    "duplicate": """log: the first `RECEIVE` at the lowest offset and the first at the second lowest;
        queue: the first two `RECEIVE`s of the subscription.""",
    "nonmonotonic send": """of both messages the event that gives the offset: the OK `SEND` with an
        offset that is first by process and index, else the first `RECEIVE` at the lowest offset.""",
    "nonmonotonic poll": """log: the two `RECEIVE`s; queue: the later one, and the earlier one with the
        highest number.""",
    "skipped poll": """the two `RECEIVE`s; of the lowest offset between them at which an effective
        message is, the first event that gives it to the effective message of lowest (producer, number):
        the first OK `SEND`, else the first `RECEIVE`.""",
    "inconsistent offset": """of each of the two lowest (producer, number), the first event that gives
        it the offset.""",
    "unexpected": """the first `RECEIVE` of the message in the partition; the first `SEND` of it there
        that failed, if there is one. Producer -1: the `RECEIVE`.""",
    "altered": "the `RECEIVE`, and the first `SEND` of the message with a digest.",
    "leaked": "the first `RECEIVE` of the process from the stream.",
    "aborted read": """the first possible `SEND` of the message (its first event), the first OK
        `END_ABORT` of that send's transaction, and the `RECEIVE`.""",
    "precommitted read": """the first possible `SEND` of the message (its first event), the `RECEIVE`,
        and the first event of an `END_COMMIT` of that send's transaction, if there is one.""",
    "torn transaction": """the first OK `SEND` and the first `RECEIVE` by the reader of the lowest
        message (stream, partition, number) that it received; the first OK `SEND` of the lowest one that
        it did not receive, and the first OK `READ_TO_END` of the reader that covers an offset of it;
        the first OK `END_COMMIT`.""",
    "G1c": """of each transaction on a shortest cycle the first OK `END_COMMIT`; of each of its *wr*
        edges the first `RECEIVE`; of each of its *ww* edges, at the lowest (stream, partition, offset),
        the two events that give the offsets. The cycle has the lowest *wr* edge (from, to) inside the
        component, and from its end back the shortest path, of several the one that a breadth-first
        search finds that visits lower neighbours first. An edge that is both counts as *wr*.""",
    "zombie commit": "the first OK `OPEN` that fenced it, and the `INVOKE` and the OK of the `END_COMMIT`.",
    "hanging transaction": """of the OK `SEND`s that show it the first at the lowest offset, the
        `READ_TO_END`, and the first of those that tell that the log is longer.""",
    "overlapping assignment": """the first `ASSIGN` under which another one holds the partition, and the
        later one.""",
    "lost commit": "of the OK `COMMIT`s before with the highest offset the first, and the `ASSIGN`.",
    "backward commit": "of the OK `COMMIT`s before with the highest offset the first, and the `COMMIT`.",
    "overrun": """the `READY` that set the limit, and of the last `RECEIVE` of each message in flight
        (after this one) the last `HELD_SHOWN` by index.""",
    "too many attempts": "the `RECEIVE`.",
    "zombie delivery": "the first OK `ACKNOWLEDGE` that is before it, and the `RECEIVE`.",
}
"""The events of the witness of each kind; those with `int-` have the same ones."""


def order_of(event: Event) -> tuple[int, int, int]:
    """Returns the key by which events are "first" in a witness, and by which it shows them."""
    return (event.time_ns, event.process, event.index)


def first_of_each(witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
    """Returns the first `WITNESSES` of each kind, ordered by their anomalies."""
    kept: list[Witness] = []
    seen: dict[str, int] = {}
    for witness in sorted(witnesses, key=lambda each: each.anomaly):
        seen[witness.anomaly.kind] = seen.get(witness.anomaly.kind, 0) + 1
        if seen[witness.anomaly.kind] <= WITNESSES:
            kept.append(witness)
    return tuple(kept)


def make_witness(anomaly: Anomaly, events: Iterable[Event], manifest: Manifest) -> Witness:
    """Orders the events, each once, and adds the sentence."""
    ordered = tuple(sorted(set(events), key=order_of))
    return Witness(anomaly, tell(anomaly, ordered, manifest), ordered)


def tell(anomaly: Anomaly, events: tuple[Event, ...], manifest: Manifest) -> str:
    """Returns the sentence of an anomaly: what was seen, with the names of the manifest."""
    names = _Names(anomaly, manifest)
    message, place, group, process = names.message, names.place, names.group, names.process
    match anomaly.kind.removeprefix("int-"):
        case "lost write":
            missed = f"{group} never received it" if group else "no reader received it"
            return f"{message} to {place} was acknowledged, and {missed}"
        case "unprocessed":
            return f"{group} committed past {message} in {place}, and no member acknowledged it"
        case "duplicate":
            at = " and ".join(str(event.offset) for event in sorted(events, key=lambda each: each.offset))
            where = f"at offsets {at}" if names.is_log else f"twice by {group}"
            return f"{message} in {place} was received {where}"
        case "nonmonotonic send":
            return f"{message} in {place} has a lower offset than one that its producer sent before"
        case "nonmonotonic poll":
            what = (
                "an offset that is not above the one before"
                if names.is_log
                else "a message older than one before"
            )
            return f"{process} received {what} from {place}{names.in_one_call}"
        case "skipped poll":
            return f"{process} skipped an acknowledged message of {place}{names.in_one_call}"
        case "inconsistent offset":
            return f"offset {anomaly.offset} of {place} had two messages"
        case "unexpected":
            failed = any(event.operation is Operation.SEND for event in events)
            why = "its send failed" if failed else "nobody sent it"
            return f"{message} was received from {place}, and {why}"
        case "altered":
            return f"{process} received {_message(events)} from {place} with other bytes than were sent"
        case _:
            return _tell_more(anomaly, events, names)


def _tell_more(anomaly: Anomaly, events: tuple[Event, ...], names: _Names) -> str:
    place, group, process = names.place, names.group, names.process
    match anomaly.kind:
        case "leaked":
            return f"{process} received from `{names.stream}`, which it may not read"
        case "aborted read":
            return f"{process} received {_message(events)} from {place}, and its transaction was aborted"
        case "precommitted read":
            return (
                f"{process} received {_message(events)} from {place} before its transaction was committed"
            )
        case "torn transaction":
            return f"{process} read only a part of transaction {anomaly.transaction} of {names.sender}"
        case "G1c":
            cycle = "in a cycle of transactions that read of each other"
            return f"transaction {anomaly.transaction} of {process} is {cycle}"
        case "zombie commit":
            return f"{process} committed as {group} after another process had fenced it"
        case "hanging transaction":
            at = (anomaly.process, anomaly.index)
            end = next(event.offset for event in events if (event.process, event.index) == at)
            return f"{process} could read {place} only to offset {end}, though no transaction was under way"
        case "overlapping assignment":
            return f"{process} was assigned {place} in {group} while another member held it"
        case "lost commit":
            start, highest = min(event.offset for event in events), max(event.offset for event in events)
            return (
                f"{process} was assigned {place} in {group} at offset {start}, after a commit of {highest}"
            )
        case "backward commit":
            low, high = min(event.offset for event in events), max(event.offset for event in events)
            return f"{process} committed offset {low} of {place} in {group}, after a commit of {high}"
        case "overrun":
            limit = next(event.number for event in events if event.operation is Operation.READY)
            return f"{process} had more than {limit} messages of `{names.stream}` in flight"
        case "too many attempts":
            return (
                f"{process} received {_message(events)} of `{names.stream}` as attempt {events[-1].attempt}"
            )
        case "zombie delivery":
            again = f"again, after {group} had acknowledged it"
            return f"{process} received {_message(events)} from {place} {again}"
        case _:
            raise AssertionError(f"unknown kind of anomaly: {anomaly.kind}")


def _message(events: Iterable[Event]) -> str:
    received = [
        event for event in events if event.operation is Operation.RECEIVE and event.outcome is Outcome.OK
    ]
    return _name_message(received[-1].producer, received[-1].number)


def _name_message(producer: int, number: int) -> str:
    return "a message of an unknown producer" if producer == NONE else f"message {producer}:{number}"


class _Names:
    """The fields of an anomaly by the names that the manifest gives them."""

    def __init__(self, anomaly: Anomaly, manifest: Manifest) -> None:
        self.is_log = anomaly.stream != NONE and manifest.streams[anomaly.stream].offsets
        self.stream = manifest.streams[anomaly.stream].name if anomaly.stream != NONE else ""
        self.place = f"`{self.stream}`/{anomaly.partition}"
        if anomaly.group != NONE:
            self.group = f"group `{manifest.groups[anomaly.group]}`"
        else:
            self.group = "" if self.is_log or anomaly.stream == NONE else "the queue's readers"
        self.process = f"`{manifest.processes[anomaly.process].name}`" if anomaly.process != NONE else ""
        self.message = _name_message(anomaly.producer, anomaly.number)
        self.sender = (
            f"`{manifest.processes[anomaly.producer].name}`"
            if anomaly.kind == "torn transaction" and anomaly.producer != NONE
            else ""
        )
        self.in_one_call = " within one call" if anomaly.kind.startswith("int-") else ""
