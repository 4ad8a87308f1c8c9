"""Arguments that are kept in slots, because a parameter takes many values."""

from __future__ import annotations

import pytest

from tests.csp.texts import counts

COUNTS_UP = "var x = 7; P(i) = [i < 200] b{x = i;} -> P(i + 1);"
PAIR = "P(i, j) = [i < 80] a.i.j -> P(i + 1, j) [] [i == 80] b.j -> Stop;"
WITHIN = "P(i) = [i < 90] a -> P(i + 1); S() = P(20) ||| b -> Stop;"


@pytest.mark.parametrize(
    ("text", "name", "arguments", "expected"),
    [
        (COUNTS_UP, "P", (5,), (196, 195)),  # P(5), then x = i for i from 5 to 199
        (COUNTS_UP, "P", (0,), (201, 200)),
        (COUNTS_UP, "P", (199,), (2, 1)),
        (COUNTS_UP, "P", (200,), (1, 0)),
        (PAIR, "P", (3, 9), (79, 78)),  # P(3, 9) to P(80, 9), Stop
        (PAIR, "P", (-2, -7), (84, 83)),
        (WITHIN, "S", (), (142, 211)),  # 71 places of the left branch, two of the right one
    ],
)
def test_a_process_starts_with_its_arguments(
    text: str, name: str, arguments: tuple[int, ...], expected: tuple[int, int]
) -> None:
    assert counts(text, name, *arguments) == expected
