"""Recordings that are damaged at random: a whole history, or an error with its place, and no crash."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.unit.history.foreign.test_jepsen_log import ASSIGNED, ops
from tests.unit.history.foreign.test_jepsen_queue import WORK
from tests.unit.history.foreign.test_kafka_clients import CONSUMER, PRODUCER, lines
from tests.unit.history.foreign.test_kafka_dump import LOG
from tests.unit.history.foreign.told import imported, tell
from veristream.errors import ModelError
from veristream.history.foreign.importing import import_history
from veristream.history.store.reader import validate

JSON = "".join(
    json.dumps(op) + "\n"
    for op in (
        {"process": 0, "type": "invoke", "f": "txn", "value": [["send", 1, 1], ["poll"]]},
        {
            "process": 0,
            "type": "ok",
            "f": "txn",
            "value": [["send", 1, [0, 1]], ["poll", {"1": [[0, 1]], "2": [[5, 6]]}]],
            "rebalance-log": [{"keys": [1]}],
        },
    )
)
RECORDINGS = (
    {"a.edn": ASSIGNED},
    {"a.edn": ops(*WORK, "0 ok drain [1 5]")},
    {"a.json": JSON},
    {"p.log": lines(*PRODUCER), "c.log": lines(*CONSUMER)},
    {"c.log": lines(*CONSUMER), "p.log": lines(*PRODUCER)},
    {"b.txt": LOG, "p.log": lines(*PRODUCER)},
)
"""The first file of each is damaged."""
SCRAPS = (
    b"nil",
    b"null",
    b"-1",
    b"{}",
    b"[]",
    b"9" * 25,
    b'"x"',
    b":a",
    b"1.5",
    b"[[[",
    b"\xff",
    b"\0",
    b"\n",
)


def damage(data: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(data))
    end = begin + chance.randrange(1, 12)
    match chance.randrange(4):
        case 0:
            return data[:begin] + bytes([chance.randrange(256)]) + data[begin + 1 :]
        case 1:
            return data[:begin] + data[end:]
        case 2:
            return data[:begin] + data[begin : begin + 60] + data[begin:]
        case _:
            return data[:begin] + chance.choice(SCRAPS) + data[end:]


@pytest.mark.parametrize("number", range(len(RECORDINGS)))
def test_damage_never_makes_half_a_history(tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    files = {name: text.encode() for name, text in RECORDINGS[number].items()}
    target = next(iter(files))
    refused = 0
    for attempt in range(60):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        for name, data in {**files, target: damage(files[target], chance)}.items():
            (folder / name).write_bytes(data)
        try:
            import_history([folder / name for name in files], folder / "history")
        except ModelError as error:
            refused += str(folder) in error.message
            assert not (folder / "history" / "history.json").exists()
        else:
            refused += 1
            validate(folder / "history")
    assert refused == 60


def test_a_text_that_utf_8_cannot_write(tmp_path: Path) -> None:
    text = ops('0 invoke send [[:send "\\ud800" 1]]', '0 info send [[:send "\\ud800" 1]], :error "\\udfff"')
    told = tell(*imported(tmp_path, {"history.edn": text}))
    assert told[:2] == [
        "0 process 0: SEND ? \\ud800/0 0:0",
        "10 process 0: SEND info \\ud800/0 0:0 (\\udfff)",
    ]
