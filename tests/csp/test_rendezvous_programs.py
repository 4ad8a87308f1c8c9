"""The two programs of a rendezvous: the names of one mean nothing to the other.

A comment before each text derives its states and steps; z tells what the input's program has read.
"""

from __future__ import annotations

import pytest

from tests.csp.texts import counts

VARIABLES = "var y = 0; var z = 0; channel c 0;"
SEND, TAKE = "c!1{var x = 3; y = x;} -> Skip", "c?x{z = x;} -> Skip"

PROGRAMS = {
    # P() -c.1-> both Skip; the sequence goes on: a.1, deadlock.
    "before a sequence": f"{VARIABLES} P() = ({SEND} ||| {TAKE}); Check(z); Check(i) = [i == 1] a -> Stop;",
    "in a choice": f"{VARIABLES} P() = (({SEND} ||| {TAKE}) [] [y > 9] b -> Skip); [z == 1] a -> Stop;",
    "separate": f"{VARIABLES} Q() = {SEND}; R() = {TAKE}; P() = (Q() ||| R()); [z == 1] a -> Stop;",
    "interrupt": f"{VARIABLES} P() = ({SEND} || {TAKE}) interrupt ([z == 1] a -> Stop);",
    "hidden": f"{VARIABLES} P() = (({SEND} ||| {TAKE}) \\ {{b}}); [z == 1] a -> Stop;",
    "loops": (
        "var z = 0; channel c 0; P() = (c!2{var x = 0; while (x < 9) {x = x + 1;}} -> Skip"
        " ||| c?x{var k = 0; while (k < x) {z = z + 1; k++;}} -> Skip); [z == 2] a -> Stop;"
    ),
    "branches": (
        "var z = 0; channel c 0; P() = (c!2{var x = 7; if (x == 7) {x = 8;} else {x = 9;}} -> Skip"
        " ||| c?x{if (x == 2) {z = x;}} -> Skip); [z == 2] a -> Stop;"
    ),
}


@pytest.mark.parametrize(("text"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_reads_its_own_names(text: str) -> None:
    states, steps = counts(text)  # compares with the oracle
    assert steps >= 2, "the event after the rendezvous needs the value that was received"
    assert states > 2
