"""Listed replays: what is expected of them, and how what happened is compared with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.replay.test_course import PLAN, Scripted
from veristream.errors import ModelError
from veristream.history.properties import Property
from veristream.history.verdicts import Judgement, Word
from veristream.known import find_shipped
from veristream.replay.course import execute
from veristream.replay.listed import Listed, differences, find_replays, read_replays
from veristream.replay.outcome import Outcome, Replayed, conclude
from veristream.replay.table import FILE_NAME, find_table

ONE = """
[[replay]]
name = "one"
about = "A run."
file = "m.py"
property = "p"
constants = { N = 1 }
set = { "broker.a" = "1" }
steered = false
outcome = "not reproduced"
left = "hear"
"""
HELD = Judgement(Property.ABORTED, Word.HELD, "over 9 messages", 9)


def test_a_listed_replay_says_what_is_expected(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(ONE, encoding="utf-8")
    assert read_replays(path) == (
        Listed(
            "one",
            "A run.",
            tmp_path / "m.py",
            "p",
            Outcome.NOT_REPRODUCED,
            "hear",
            {"N": 1},
            {"broker.a": "1"},
            steered=False,
        ),
    )


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('name = "one"', "name = 1", "replay 1: `name` is 1"),
        ('name = "one"', 'colour = "red"', "replay 1: unknown key `colour`"),
        ('about = "A run."', "", "replay 1 lacks `about`"),
        ('"not reproduced"', '"maybe"', "replay 1: `maybe` is no outcome"),
        ('file = "m.py"', 'file = "m.py"\nbroker = "redis"', "replay 1: nothing is replayed on redis"),
        ("[[replay]]", ONE + "[[replay]]", "has two replays with one name"),
        ("[[replay]]", "[[replay]", "is not TOML"),
    ],
)
def test_a_wrong_list_is_an_error_with_its_place(
    tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(ONE.replace(right, wrong), encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        read_replays(path)
    assert message in caught.value.message


def test_the_shipped_replays_are_of_models_with_tables() -> None:
    found = find_replays(find_shipped())
    assert {one.expected for one in found} == set(Outcome)
    assert {one.broker for one in found} == {"kafka", "rabbitmq", "nsq"}
    for one in found:
        table = find_table(one.model, one.broker)
        assert not one.left or one.left in table.actions
        assert one.expected is Outcome.NOT_REPRODUCED or not one.left
    assert [one.name for one in find_replays(find_shipped(), ["fenced"])] == ["fenced"]
    with pytest.raises(ModelError, match="no replay is called `fence`") as caught:
        find_replays(find_shipped(), ["fence"])
    assert caught.value.hint == "did you mean `fenced`?"


def test_a_replay_is_on_kafka_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(ONE + ONE.replace('"one"', '"two"\nbroker = "nsq"'), encoding="utf-8")
    assert [one.broker for one in read_replays(path)] == ["kafka", "nsq"]


def test_another_outcome_and_another_step_are_differences(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(ONE, encoding="utf-8")
    (one,) = read_replays(path)
    left = execute(PLAN, Scripted(returned=None))
    whole = execute(PLAN, Scripted())
    as_listed = Replayed(PLAN, Property.ABORTED, conclude(left, HELD), left)
    assert differences(one, as_listed) == ()
    assert differences(replace(one, left=""), as_listed) == ("reality left the run at hear, not at none",)
    assert differences(one, Replayed(PLAN, None, conclude(whole, None), whole)) == (
        "reproduced, not not reproduced",
        "reality left the run at no step, not at hear",
    )
