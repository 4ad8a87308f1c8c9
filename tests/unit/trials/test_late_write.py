"""The table of late writes: it is whole, and a wrong one is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from veristream.errors import ModelError
from veristream.recording.kafka.late_write.cell import CLIENTS, VERSIONS, Cell
from veristream.trials.late_write import differences, read_expected

WHOLE = """\
[[cell]]
client = "java"
transaction_version = 2
verification = true
broker = "4.1.1"
written_before = false
client_version = "4.1.1"
in_next = false
in_callback = false
error = "INVALID_PRODUCER_EPOCH"
hanging = false
starved = false
new_epoch = true
aborted_read = false
healed = true
runs = 2
"""


def test_every_cell_was_seen_twice() -> None:
    found = read_expected()
    assert set(found) >= {
        Cell(client, version, verified, in_next=in_next)
        for client in CLIENTS
        for version in VERSIONS
        for verified in (False, True)
        for in_next in (False, True)
    }
    assert {(each.broker, each.client, each.verification) for each in found} >= {
        ("3.9.1", client, verified) for client in CLIENTS for verified in (False, True)
    }
    assert min(each.runs for each in found.values()) >= 2


def test_what_was_refused_does_no_harm() -> None:
    """And what was accepted is read, and hangs until then: no third outcome was seen."""
    for cell, each in read_expected().items():
        late = each.late
        assert late.aborted_read == (not late.error), cell.name
        assert late.hanging == late.starved == (not late.error and not cell.in_next), cell.name
        assert late.healed, cell.name


def test_a_difference_is_told() -> None:
    (expected,) = read_expected(WHOLE).values()
    assert expected.runs == 2
    assert differences(expected, expected.late) == []
    assert differences(expected, replace(expected.late, error="", hanging=True)) == [
        "error is '', not 'INVALID_PRODUCER_EPOCH'",
        "hanging is True, not False",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("hanging = false\n", "", "late_write.toml: cell 1 lacks `hanging`"),
        ("runs = 2", "runs = 2\nnotes = 1", "late_write.toml: cell 1 has the unknown key `notes`"),
        ("runs = 2", "runs = 0", "late_write.toml: cell 1 was never seen"),
        ("hanging = false", "hanging = 0", "late_write.toml: `hanging` of cell 1 is 0"),
        ('client = "java"', 'client = "kcat"', "no client is called kcat"),
        ("runs = 2", "runs =", "late_write.toml: Invalid value"),
        ("runs = 2\n", f"runs = 2\n{WHOLE}", "late_write.toml: cell 2 is there twice: java 4.1.1, "),
    ],
)
def test_a_wrong_table_is_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(said)}"):
        read_expected(WHOLE.replace(old, new))
