"""Whether one event leads from a state to different states."""

from __future__ import annotations

from veristream.native.loop import loop
from veristream.native.primitives import half_at, set_word, word_at

NO_EVENT = -1


@loop
def split_event(system, ways, state):  # type: ignore[no-untyped-def]
    """The first event of the expanded state with steps to different states, or NO_EVENT. `ways` is the
    address of two words per event: the last state that had a step of it, plus 1, and that step's target."""
    for edge in range(word_at(system.first, state) - 1, word_at(system.last, state)):
        event, target = half_at(system.events, edge), half_at(system.targets, edge)
        if word_at(ways, 2 * event) == state + 1 and word_at(ways, 2 * event + 1) != target:
            return event
        set_word(ways, 2 * event, state + 1)
        set_word(ways, 2 * event + 1, target)
    return NO_EVENT
