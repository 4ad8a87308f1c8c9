"""The tree of a breadth-first search by one worker, in a few bits for each state.

The search expands states in the order in which it found them. So it suffices to note, for each state that
is expanded, which of its steps led to new states. A state's path is then a list of numbers of steps, which
lead from the initial state to it without any other state being stored.

The notes are bits: 1 for a step to a new state; 00 for a step to a known one, unless no step to a new state
follows; 10 after the last step of a state. Read backwards, each begins where the one after it ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import call_4, load_word, set_word, word_at
from veristream.search.reach.expand import Code, Own

# How many bits there are, then the bits, the lowest of each word first.
_LENGTH, _BITS = 0, 1


@loop
def tree_length(tree: int) -> int:
    """How many bits the tree has."""
    return word_at(tree, _LENGTH)


@loop
def _set_bit(tree, position):  # type: ignore[no-untyped-def]
    word = _BITS + (position >> 6)
    set_word(tree, word, word_at(tree, word) | (1 << (position & 63)))


@loop
def _has_bit(tree, position):  # type: ignore[no-untyped-def]
    return (word_at(tree, _BITS + (position >> 6)) >> (position & 63)) & 1 != 0


@loop
def note_new(tree, known):  # type: ignore[no-untyped-def]
    """Notes a step to a new state, after so many steps to known ones."""
    position = word_at(tree, _LENGTH) + 2 * known
    _set_bit(tree, position)
    set_word(tree, _LENGTH, position + 1)


@loop
def note_expanded(tree):  # type: ignore[no-untyped-def]
    """Notes that all steps of a state are taken."""
    position = word_at(tree, _LENGTH)
    _set_bit(tree, position)
    set_word(tree, _LENGTH, position + 2)


@loop
def walk_tree(tree: int, expanded: int, found: int, state: int, steps: NDArray[np.int64]) -> int:
    """Writes the numbers of the steps that lead to a state, the last one first; returns how many. So many
    states are expanded, and so many found."""
    at = word_at(tree, _LENGTH)
    count, is_inside = 0, False  # whether `at` is among the notes on the source of steps[count - 1]
    while at > 0:
        is_new = _has_bit(tree, at - 1)
        if not is_new and _has_bit(tree, at - 2):
            if is_inside:
                state = expanded
                is_inside = False
            expanded -= 1
            at -= 2
            continue
        at -= 1 if is_new else 2
        if is_inside:
            steps[count - 1] += 1
        if is_new:
            found -= 1
            if found == state:
                is_inside = True
                steps[count] = 0
                count += 1
    return count


@loop
def follow(code: Code, own: Own, steps: NDArray[np.int64], rows: NDArray[np.int64], width: int) -> None:
    """Takes the steps with these numbers, the last one first; `rows` begins with the initial state, and is
    given the others."""
    out, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    for k in range(steps.size):
        row = rows.ctypes.data + 8 * width * k
        call_4(code.successors, row, out, actions, own.out_actions.size)
        chosen = out + 8 * width * steps[steps.size - 1 - k]
        for word in range(width):
            set_word(row, width + word, load_word(chosen + 8 * word))
