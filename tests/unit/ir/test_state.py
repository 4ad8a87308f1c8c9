"""The layout and the readable form of states."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.ir.small_networks import (
    DIGIT,
    PAIR,
    SLOT,
    process,
)
from veristream.ir.expr import (
    BOOL,
    Type,
)
from veristream.ir.network import (
    Channel,
    ChannelKind,
    Enumeration,
    Location,
    Network,
    Variable,
)
from veristream.ir.show import show_state
from veristream.ir.state import State, initial_state


def test_states_are_shown_by_name() -> None:
    color = Type(0, 1, "Color")
    model = Network(
        "shown",
        enums=(Enumeration("Color", ("red", "blue")),),
        variables=(
            Variable("n", DIGIT, initial=(4,)),
            Variable("flag", BOOL, (2,), (0, 1)),
            Variable("grid", color, (2, 2), (0, 1, 1, 0)),
        ),
        channels=(
            Channel("one", ChannelKind.BUFFER, (color,), (2,), capacity=2),
            Channel("two", ChannelKind.BUFFER, (DIGIT, BOOL), capacity=2),
            PAIR,
        ),
        components=(process("P"), process("Only", locations=(Location("x"),)), SLOT),
    )
    start = initial_state(model)
    assert start == State((4, 0, 1, 0, 1, 1, 0, 1, 2), ((), (), ()), (0, 0, -1))
    state = replace(start, queues=((), ((1,), (0,)), ((3, 1),)))
    assert show_state(model, state) == {
        "n": 4,
        "flag": [False, True],
        "grid": [["red", "blue"], ["blue", "red"]],
        "S.n": [1, 2],
        "one": [[], ["blue", "red"]],
        "two": [[3, True]],
        "P": "x",
        "S": "idle",
    }
