"""Messages survive the way through JSON, and anything else is refused with its place."""

from __future__ import annotations

import json

import pytest

from veristream.search.session import Hit
from veristream.search.shared.checkpoint import Manifest
from veristream.search.shared.codec import MessageError, decode, encode
from veristream.search.shared.messages import (
    Address,
    Ask,
    Best,
    Counters,
    CutUnreached,
    FindLeft,
    FirstLeft,
    FoundState,
    LevelDone,
    LevelReport,
    LookReport,
    ReachState,
    SavedPart,
    Start,
    StateRef,
    Totals,
)

SAVED = SavedPart(("part-0-1.parquet",), 3, Totals(7, 1 << 62, (Best(-5, 2),)), ("edges-0-1.parquet",))
REPORT = LevelReport(Counters(3, 2, seen=1), (Best(-1, -1),), (Hit(0, 1, 2), Hit(3, 4, 5)), 12)


@pytest.mark.parametrize(
    "message",
    [
        Address("127.0.0.1", 4000),
        Start((Address("a", 1), Address("b", 2)), "/tmp", None, True),
        Start((Address("a", 1),), "", (SAVED,), False),
        LevelDone(1, 2, REPORT),
        LevelDone(1, 2, LookReport(3, 4)),
        FoundState(((1 << 64) - 1, 0), None),
        FoundState((), StateRef(1, 2), 3),
        FirstLeft(None),
        FirstLeft(0),
        Ask(FindLeft()),
        Ask(CutUnreached(None)),
        Ask(ReachState(StateRef(1, 2))),
        Manifest("digest", 4, (1, 2), (Hit(1, 2, 3),), (SAVED, SavedPart())),
    ],
)
def test_a_message_is_read_as_it_was_written(message: Address) -> None:
    assert decode(type(message), encode(message)) == message


def test_fields_are_written_by_name_and_only_unions_have_a_tag() -> None:
    assert json.loads(encode(Ask(CutUnreached(3)))) == {"question": {"type": "CutUnreached", "unit": 3}}
    assert json.loads(encode(FoundState((1,), StateRef(2, 3), 4))) == {
        "row": [1],
        "parent": {"part": 2, "index": 3},
        "entry": 4,
    }


@pytest.mark.parametrize(
    ("expected", "text", "reason"),
    [
        (Address, '{"host": "a"}', "Address: missing field port"),
        (Address, '{"host": "a", "port": 1, "x": 2}', "Address: unknown field x"),
        (Address, '{"host": "a", "port": "1"}', 'Address.port: expected int, found "1"'),
        (Address, '{"host": "a", "port": true}', "Address.port: expected int, found true"),
        (Address, "[1]", r"Address: expected an object, found \[1\]"),
        (Address, "{", "Address: not JSON"),
        (FoundState, '{"row": [1, "a"], "parent": null, "entry": 0}', r"FoundState.row\[1\]: expected int"),
        (FoundState, '{"row": {}, "parent": null, "entry": 0}', "FoundState.row: expected a list"),
        (
            FoundState,
            '{"row": [], "parent": {"part": 1}, "entry": 0}',
            "FoundState.parent: missing field index",
        ),
        (Ask, '{"question": {"type": "Sing"}}', "Ask.question: unknown type 'Sing'"),
        (Ask, '{"question": {}}', 'Ask.question: expected an object with "type"'),
        (Ask, '{"question": null}', "Ask.question: expected an object"),
    ],
)
def test_anything_else_is_refused(expected: type[Address], text: str, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        decode(expected, text)
