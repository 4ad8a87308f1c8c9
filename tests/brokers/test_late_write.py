"""A late write on real brokers: outcomes as the table states them, and audits of the recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.missing import is_missing
from tests.unit.recording.histories import read_back
from veristream.brokers.java.build import find_client
from veristream.brokers.kafka import find_program
from veristream.errors import EnvironmentFailure
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.recording.kafka.late_write.cell import Cell
from veristream.recording.kafka.late_write.experiment import run_cells
from veristream.trials.late_write import differences, read_expected

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("late-write")]

OLD_PROTOCOL = Cell("librdkafka", 2, verification=False)
"""The broker could do better than the client, which speaks the older protocol."""

SAME_EPOCH = Cell(
    "java", 0, verification=True, broker="3.9.1", client_version="3.9.1", in_next=True, in_callback=True
)
"""The coordinator confirms what the late write joins, which is another transaction."""


def test_the_table_is_what_happens(tmp_path: Path) -> None:
    """Also that the recordings of both clients can be audited."""
    cells = (OLD_PROTOCOL, SAME_EPOCH)
    try:
        for version in {each.client_version for each in cells}:
            find_client(find_program(version))
    except EnvironmentFailure as missing:
        is_missing(missing.render())
    expected = read_expected()
    words = {}
    for number, (cell, late, evidence) in enumerate(run_cells(tmp_path, cells)):
        assert differences(expected[cell], late) == [], (cell.name, evidence)
        manifest, events = read_back(tmp_path / str(number))
        assert manifest.complete
        judgements = dict(zip(Property, judge(manifest, events), strict=True))
        words[cell] = judgements[Property.ABORTED].word, dict(judgements[Property.ABORTED].counts)
    assert words == {
        OLD_PROTOCOL: (Word.VIOLATED, {"aborted read": 1}),
        SAME_EPOCH: (Word.VIOLATED, {"aborted read": 1}),
    }
