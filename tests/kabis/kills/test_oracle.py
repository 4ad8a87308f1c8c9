"""The check of the kill tests: one history as it must be, and one for each way in which it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.kills.notes import Notebook, Notes, NotesReader
from tests.kabis.kills.oracle import Delivered, find_problems


def history(line: str) -> list[Delivered]:
    """Events of partition 0 as they were delivered: `a0 b1` is anna's event 0, then bert's 1."""
    names = {"a": "anna", "b": "bert"}
    return [
        Delivered(0, index, names[word[0]], f"{names[word[0]]} {word[1:]}".encode())
        for index, word in enumerate(line.split())
    ]


def told(anna: dict[int, int], bert: dict[int, int]) -> dict[str, Notes]:
    """Each pushed 0 to 9 to partition 0, and was told of these numbers at these indices."""
    return {
        name: Notes(dict.fromkeys(range(10), 0), {number: (0, index) for number, index in known.items()})
        for name, known in (("anna", anna), ("bert", bert))
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a0 b0 a1 b5", None),
        ("a0 b0 a1 b5 a7 b9", None),  # not acknowledged, and there all the same
        ("a0 b0 a1", "bert 5: acknowledged at (0, 3), and lost"),
        ("a0 b0 a2 b5", "anna 1: acknowledged at (0, 2), where ('anna', b'anna 2') stands"),
        ("a0 b0 a1 b5 a1", "it was there before"),
        ("a0 b0 a1 b5 b3", "it was pushed before"),
        ("a0 b0 a1 b5 a10", "nobody pushed that"),
        ("a0 b0 a1 b5 a07", "nobody pushed that"),
    ],
)
def test_what_is_wrong_is_found(line: str, problem: str | None) -> None:
    found = find_problems(told({0: 0, 1: 2}, {0: 1, 5: 3}), history(line))
    if problem is None:
        assert found == []
    else:
        assert any(problem in each for each in found), found


def test_an_index_that_is_skipped_or_comes_twice_is_found() -> None:
    events = history("a0 a1 a2")
    notes = told({}, {})
    assert find_problems(notes, events[:1] + events[2:]) == [
        "partition 0: index 2 was delivered where 1 was due"
    ]
    assert find_problems(notes, [*events[:2], events[1]])[0] == (
        "partition 0: index 1 was delivered where 2 was due"
    )


def test_an_event_that_another_signed_or_that_moved_is_found() -> None:
    for event in (Delivered(0, 0, "bert", b"anna 0"), Delivered(1, 0, "anna", b"anna 0")):
        assert find_problems(told({}, {}), [event]) == [f"{event}: nobody pushed that"]


def test_a_push_that_failed_is_found() -> None:
    notes = told({}, {})
    notes["bert"].failed[3] = "not acknowledged in time"
    assert find_problems(notes, []) == ["bert 3: not acknowledged in time"]


def test_notes_of_several_runs_are_read_once_and_torn_lines_do_not_count(tmp_path: Path) -> None:
    reader = NotesReader(tmp_path)
    assert reader.read() == Notes()
    first = Notebook(tmp_path)
    first.push(0, 0)
    first.push(1, 1)
    first.acknowledge(0, 0, 7)
    assert reader.read() == Notes({0: 0, 1: 1}, {0: (0, 7)})
    with (tmp_path / "000000.txt").open("ab") as file:
        file.write(b"acknowledged 1 1 12")  # killed before it was all written
    second = Notebook(tmp_path)
    second.push(2, 0)
    second.fail(2, "of  two\nlines")
    expected = Notes({0: 0, 1: 1, 2: 0}, {0: (0, 7)}, {2: "of two lines"})
    assert reader.read() == NotesReader(tmp_path).read() == expected
