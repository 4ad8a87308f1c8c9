"""When a party is started again: a pure decision, and the notes about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.kabis.cluster.restarts import (
    End,
    History,
    Policy,
    forget_history,
    hold,
    is_held,
    let_go,
    note_history,
    read_history,
)

POLICY = Policy(first_s=1.0, last_s=10.0, stable_s=60.0, failures_max=5)


def waits(code: int | None, ends: int, lived_s: float = 0.0) -> list[float | None]:
    """The waits after a number of ends; None once it is left down."""
    history, found = History(), []
    for _ in range(ends):
        history = POLICY.judge(history, End(code, lived_s))
        found.append(None if history.is_left else history.wait_s)
    return found


def test_who_dies_again_and_again_waits_longer_and_is_left_down() -> None:
    assert waits(-9, 6) == [1.0, 2.0, 4.0, 8.0, 10.0, None]
    assert waits(None, 6) == [1.0, 2.0, 4.0, 8.0, 10.0, None]


def test_who_ran_for_a_while_starts_with_a_clean_slate() -> None:
    assert waits(-9, 20, lived_s=60.0) == [1.0] * 20


def test_a_refusal_is_not_repeated_and_a_failing_machine_gets_time() -> None:
    assert waits(2, 1) == [None]
    assert waits(3, 6) == [10.0] * 5 + [None]


def test_a_clean_stop_is_respected() -> None:
    assert waits(0, 1) == [None]


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (End(-9, 1.0, "unrelated"), "was killed by SIGKILL"),
        (End(-200, 1.0), "was killed by signal 200"),
        (End(0, 1.0, "unrelated"), "was stopped"),
        (End(3, 1.0, "the disk is full"), "ended with exit code 3: the disk is full"),
        (End(None, 1.0, "bye"), "ended: bye"),
        (End(1, 1.0), "ended with exit code 1"),
    ],
)
def test_an_end_in_words(end: End, text: str) -> None:
    assert end.describe() == text


def test_notes_are_read_back_and_bad_ones_are_none(tmp_path: Path) -> None:
    history = History(3, 2, "was killed by SIGKILL", is_left=True)
    note_history(tmp_path, history)
    assert read_history(tmp_path) == history
    for text in ("", "[]", "{}", '{"restarts": [], "failures": 0, "reason": "", "is_left": false}'):
        (tmp_path / "restarts.json").write_text(text, encoding="utf-8")
        assert read_history(tmp_path) == History()
    forget_history(tmp_path)
    assert not (tmp_path / "restarts.json").exists()


def test_a_mark_holds_a_party(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    hold(tmp_path)
    assert is_held(tmp_path)
    let_go(tmp_path)
    assert not is_held(tmp_path)
    hold(tmp_path / "nowhere")  # nobody to hold
