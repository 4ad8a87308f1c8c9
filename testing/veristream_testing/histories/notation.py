"""Histories in one line: `a>1@0 b<a1@0 bE0-1` is a send, its receipt, and a reading to the end.

A word is a call: a process (a letter), an operation (a sign), what it is about, and further fields. All
words follow each other in time, 10 ns for each event.

    a>1@0     a sends its message 1, and learns offset 0       aA3    a gets the partition, from offset 3
    b<a1@0    b receives message 1 of a at offset 0            aR     a gives it up
    b<?@3     b receives a message of an unknown producer      aS3    a seeks offset 3
    b+a1@0    b acknowledges it                                ar2    a allows 2 in flight
    b-a1@0    b rejects it                                     aE0-3  a reads from offset 0 up to 3
    b=3       b commits offset 3                               aE     a drains a queue
    a[1       a begins transaction 1: what it sends is in it   ao3    a opens its producer with epoch 3
    a]1 ax1   a commits it, a aborts it                        aC     a closes

Fields: `@` offset, `/` partition, `.` stream, `^` group, `#` digest, `%` attempt, `:` call, `*` time_ns of
the last event, all of a number. Outcomes: OK without a sign, `!` failed, `?` indefinite. `~` begins a call,
which the same word with `$` ends. Transactions have the group and epoch that their process opened last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream_testing.histories.history import History

_WORD: Final = re.compile(
    r"(?P<process>[a-z])(?P<sign>[-><+=\[\]xoARSrEC])(?P<about>[a-z?]?\d*(?:-\d+)?)"
    r"(?P<more>(?:[@/.^#%:*]-?\d+|[!?~$])*)"
)
_SIGNS: Final = {
    ">": Operation.SEND,
    "<": Operation.RECEIVE,
    "+": Operation.ACKNOWLEDGE,
    "-": Operation.REJECT,
    "=": Operation.COMMIT,
    "o": Operation.OPEN,
    "[": Operation.BEGIN,
    "]": Operation.END_COMMIT,
    "x": Operation.END_ABORT,
    "A": Operation.ASSIGN,
    "R": Operation.REVOKE,
    "S": Operation.SEEK,
    "r": Operation.READY,
    "E": Operation.READ_TO_END,
    "C": Operation.CLOSE,
}
_FIELDS: Final = {
    "@": "offset",
    "/": "partition",
    ".": "stream",
    "^": "group",
    "#": "digest",
    "%": "attempt",
    ":": "call",
    "*": "time_ns",
}
_ONE_EVENT: Final = {
    Operation.RECEIVE,
    Operation.ASSIGN,
    Operation.REVOKE,
    Operation.SEEK,
    Operation.READY,
    Operation.CLOSE,
}
LOG: Final = Stream("log")
QUEUE: Final = Stream("queue", offsets=False)


@dataclass(slots=True)
class _Client:
    """What the notation remembers of a process."""

    events: int = 0
    calls: int = 0
    transaction: int = NONE
    group: int = NONE
    epoch: int = NONE
    begun: dict[str, int] = field(default_factory=dict)


def history(line: str, *streams: Stream, **manifest: Any) -> History:
    """Returns the history of a line, with a process on one host for each letter up to the last one.

    Without streams there is one log. The rest replaces fields of the manifest.
    """
    words = [_match(word) for word in line.split()]
    letters = {match["process"] for match in words}
    letters |= {match["about"][0] for match in words if match["about"][:1].isalpha()}
    count = max((ord(letter) - ord("a") + 1 for letter in letters), default=0)
    clients = [_Client() for _ in range(count)]
    events: list[Event] = []
    for match in words:
        events += _events(match, clients, 10 * len(events))
    processes = tuple(Process(chr(ord("a") + each), "host") for each in range(count))
    made = Manifest("test", processes, streams or (LOG,), groups=("g", "h", "i"))
    return History(replace(made, **manifest), tuple(events))


def _match(word: str) -> re.Match[str]:
    match = _WORD.fullmatch(word)
    assert match is not None, f"`{word}` is no word of a history"
    return match


def _events(match: re.Match[str], clients: list[_Client], now: int) -> list[Event]:
    process = ord(match["process"]) - ord("a")
    client, operation = clients[process], _SIGNS[match["sign"]]
    fields: dict[str, Any] = _about(operation, match["about"], process) | _context(
        client, operation, match["about"]
    )
    for sign, value in re.findall(r"([@/.^#%:*])(-?\d+)", match["more"]):
        fields[_FIELDS[sign]] = int(value)
    signs = re.sub(r"[@/.^#%:*]-?\d+", "", match["more"])
    key = match["sign"] + match["about"]
    call = client.begun[key] if "$" in signs else fields.pop("call", client.calls)
    client.calls = max(client.calls, call + 1)
    client.begun[key] = call
    outcomes = [Outcome.FAIL if "!" in signs else Outcome.INDEFINITE if "?" in signs else Outcome.OK]
    if "~" in signs:
        outcomes = [Outcome.INVOKE]
    elif operation not in _ONE_EVENT and "$" not in signs:
        outcomes.insert(0, Outcome.INVOKE)
    if operation is Operation.OPEN:
        client.group, client.epoch = fields.setdefault("group", 0), fields["epoch"]
    events = []
    for number, outcome in enumerate(outcomes):
        given = dict(fields)
        time_ns = now + 10 * number
        if number + 1 == len(outcomes):
            time_ns = given.pop("time_ns", time_ns)
        given.pop("time_ns", None)
        if outcome is Outcome.INVOKE and operation is Operation.SEND:
            given.pop("offset", None)
        events.append(Event(process, client.events, call, operation, outcome, time_ns, **given))
        client.events += 1
    return events


def _about(operation: Operation, about: str, process: int) -> dict[str, int]:
    """Returns the fields that follow from what a word is about, in the first partition of a stream."""
    place = {"stream": 0, "partition": 0}
    match operation:
        case Operation.SEND | Operation.RECEIVE | Operation.ACKNOWLEDGE | Operation.REJECT:
            if about == "?":
                return place
            producer = ord(about[0]) - ord("a") if about[0].isalpha() else process
            return place | {"producer": producer, "number": int(about.lstrip("abcdefghijklmnopqrstuvwxyz"))}
        case Operation.COMMIT | Operation.ASSIGN | Operation.SEEK:
            return place | ({"offset": int(about)} if about else {}) | {"group": 0}
        case Operation.REVOKE:
            return place | {"group": 0}
        case Operation.READY:
            return {"stream": 0, "number": int(about)}
        case Operation.READ_TO_END:
            number, _, offset = about.partition("-")
            return place | ({"number": int(number), "offset": int(offset)} if about else {})
        case Operation.OPEN:
            return {"epoch": int(about)}
        case Operation.BEGIN | Operation.END_COMMIT | Operation.END_ABORT:
            return {"transaction": int(about)}
        case _:
            return {}


def _context(client: _Client, operation: Operation, about: str) -> dict[str, int]:
    """Returns the fields that follow from the transaction that a process is in."""
    match operation:
        case Operation.SEND if client.transaction != NONE:
            return {"transaction": client.transaction, "epoch": client.epoch}
        case Operation.BEGIN:
            client.transaction = int(about)
        case Operation.END_COMMIT | Operation.END_ABORT:
            client.transaction = NONE
        case _:
            return {}
    return {"group": client.group, "epoch": client.epoch}
