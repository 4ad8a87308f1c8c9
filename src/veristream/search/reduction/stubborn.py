"""Stubborn sets, in native code: which of a state's actions suffice.

A set of actions is *stubborn* in a state if it contains, for each possible action in it, all that clash
with it, and for each impossible one, a necessary set of one of its false conditions. Then whatever the
others do, the possible actions in the set stay possible and commute with it. So a run from the state that
takes an action of the set at some time may take it first.

For a goal, this preserves the runs to it in one of two ways. Either the set contains a necessary set of the
goal: every run to the goal takes one of its actions, so from the next state the goal is one step nearer. Or
no possible action in the set is visible to the goal: a run that takes none of the set may take one of them
first and reaches the goal after all, and the *proviso* of the search makes sure that this does not go on
forever. Runs to a failing action are preserved only in the second way. A state without steps is preserved
either way if the set contains a possible action.
"""

from __future__ import annotations

import numpy as np

from veristream.native.loop import loop
from veristream.native.primitives import count_bits, lowest_bit, set_word, word_at
from veristream.search.reduction.tables import (
    ACTIONS,
    CLASHES,
    CONDITION_WORDS,
    CONDITIONS,
    COUNTERS,
    GOAL_FIRST,
    GOAL_NEEDS,
    GOAL_REST,
    GOALS,
    MAY_FAULT,
    NECESSARY,
    NEEDS,
    NEEDS_FIRST,
    REST,
    STAMP,
    VISIBLE,
    WATCHED,
    WIDTH,
)

# What to do with a state: take all steps, those of the set, or those of the set under the proviso.
FULL, CHOSEN, UNDER_PROVISO = range(3)

STARTS_MAX = 16
"""How many possible actions are tried as the first of a set."""


@loop
def enabled_set(header, scratch):  # type: ignore[no-untyped-def]
    """The address of the bit set of the state's possible actions."""
    return scratch + 8 * COUNTERS


@loop
def growing_set(header, scratch):  # type: ignore[no-untyped-def]
    """The address of the set that is being closed."""
    return scratch + 8 * (COUNTERS + word_at(header, WIDTH))


@loop
def chosen_set(header, scratch):  # type: ignore[no-untyped-def]
    """The address of the best set so far."""
    return scratch + 8 * (COUNTERS + 2 * word_at(header, WIDTH))


@loop
def _visible_set(header, scratch):  # type: ignore[no-untyped-def]
    """The address of the set of actions that an open goal can see."""
    return scratch + 8 * (COUNTERS + 3 * word_at(header, WIDTH))


@loop
def _stack(header, scratch):  # type: ignore[no-untyped-def]
    return scratch + 8 * (COUNTERS + 4 * word_at(header, WIDTH))


@loop
def _stamps(header, scratch):  # type: ignore[no-untyped-def]
    return scratch + 8 * (COUNTERS + 4 * word_at(header, WIDTH) + word_at(header, ACTIONS))


@loop
def has(bits, action):  # type: ignore[no-untyped-def]
    """Whether the bit set contains the action."""
    return (word_at(bits, action >> 6) >> (action & 63)) & 1 != 0


@loop
def _add(bits, action):  # type: ignore[no-untyped-def]
    one = np.int64(np.uint64(1) << np.uint64(action & 63))
    set_word(bits, action >> 6, word_at(bits, action >> 6) | one)


@loop
def _is_true(conditions, row, condition):  # type: ignore[no-untyped-def]
    entry = conditions + 8 * CONDITION_WORDS * condition
    number = np.int64(np.uint64(word_at(row, word_at(entry, 0))) >> np.uint64(word_at(entry, 1)))
    number &= word_at(entry, 2)
    op, value = word_at(entry, 3), word_at(entry, 4)
    if op == 0:
        return number == value
    if op == 1:
        return number != value
    if op == 2:
        return number < value
    if op == 3:
        return number <= value
    if op == 4:
        return number > value
    return number >= value


@loop
def _cost(bits, width, enabled, growing):  # type: ignore[no-untyped-def]
    """How much a set would add: a possible action counts more than any other."""
    cost = 0
    for k in range(width):
        new = word_at(bits, k) & ~word_at(growing, k)
        if new != 0:
            cost += count_bits(new) + 64 * count_bits(new & word_at(enabled, k))
    return cost


@loop
def _necessary(header, scratch, row, first, end, listed, rest):  # type: ignore[no-untyped-def]
    """The necessary set that adds least, for a conjunction that is false: its number; -1 if one is in the
    set already, -2 if none is known."""
    width, conditions = word_at(header, WIDTH), word_at(header, CONDITIONS)
    enabled, growing = enabled_set(header, scratch), growing_set(header, scratch)
    sets = word_at(header, NECESSARY)
    stamps, stamp = _stamps(header, scratch), word_at(scratch, STAMP)
    best, best_cost = -2, 0
    for k in range(first, end):
        condition = word_at(listed, k)
        if word_at(stamps, condition) == stamp:
            if not _is_true(conditions, row, condition):
                return -1
        elif not _is_true(conditions, row, condition):
            cost = _cost(sets + 8 * width * condition, width, enabled, growing)
            if cost == 0:
                set_word(stamps, condition, stamp)
                return -1
            if best == -2 or cost < best_cost:
                best, best_cost = condition, cost
    if best == -2 and rest >= 0:
        best = rest
        if word_at(stamps, best) == stamp:
            return -1
    if best >= 0:
        set_word(stamps, best, stamp)
    return best


@loop
def _push(bits, width, enabled, growing, stack, top, possible):  # type: ignore[no-untyped-def]
    """Adds the actions to the growing set, and the new ones to the stack; returns its height and how many
    possible actions the set has now."""
    for k in range(width):
        old = word_at(growing, k)
        new = word_at(bits, k) & ~old
        if new != 0:
            set_word(growing, k, old | new)
            possible += count_bits(new & word_at(enabled, k))
            while new != 0:
                set_word(stack, top, 64 * k + lowest_bit(new))
                top += 1
                new &= new - 1
    return top, possible


@loop
def _close(header, scratch, row, top, possible, limit):  # type: ignore[no-untyped-def]
    """Makes the growing set stubborn, whose actions on the stack are not handled yet; returns how many
    possible actions it has, or -1 if these are `limit` or more."""
    width, clashes, sets = word_at(header, WIDTH), word_at(header, CLASHES), word_at(header, NECESSARY)
    enabled, growing = enabled_set(header, scratch), growing_set(header, scratch)
    stack = _stack(header, scratch)
    firsts, listed, rests = word_at(header, NEEDS_FIRST), word_at(header, NEEDS), word_at(header, REST)
    while top > 0:
        if possible >= limit:
            return -1
        top -= 1
        action = word_at(stack, top)
        if has(enabled, action):
            bits = clashes + 8 * width * action
        else:
            first, end = word_at(firsts, action), word_at(firsts, action + 1)
            necessary = _necessary(header, scratch, row, first, end, listed, word_at(rests, action))
            if necessary == -2:
                return -1
            if necessary == -1:
                continue
            bits = sets + 8 * width * necessary
        top, possible = _push(bits, width, enabled, growing, stack, top, possible)
    return -1 if possible >= limit else possible


@loop
def _begin(header, scratch):  # type: ignore[no-untyped-def]
    """Empties the growing set."""
    growing = growing_set(header, scratch)
    for k in range(word_at(header, WIDTH)):
        set_word(growing, k, 0)
    set_word(scratch, STAMP, word_at(scratch, STAMP) + 1)


@loop
def _choose(header, scratch):  # type: ignore[no-untyped-def]
    growing, chosen = growing_set(header, scratch), chosen_set(header, scratch)
    for k in range(word_at(header, WIDTH)):
        set_word(chosen, k, word_at(growing, k))


@loop
def _from_action(header, scratch, row, action, limit):  # type: ignore[no-untyped-def]
    """Closes the set of one possible action; see `_close`."""
    _begin(header, scratch)
    _add(growing_set(header, scratch), action)
    set_word(_stack(header, scratch), 0, action)
    return _close(header, scratch, row, 1, 1, limit)


@loop
def _from_goals(header, scratch, row, open_goals, limit):  # type: ignore[no-untyped-def]
    """Closes a set that contains a necessary set of every open goal; see `_close`."""
    _begin(header, scratch)
    width = word_at(header, WIDTH)
    enabled, growing = enabled_set(header, scratch), growing_set(header, scratch)
    stack = _stack(header, scratch)
    firsts, listed = word_at(header, GOAL_FIRST), word_at(header, GOAL_NEEDS)
    top, possible = 0, 0
    for goal in range(word_at(header, GOALS)):
        if (open_goals >> goal) & 1 == 0:
            continue
        first, end = word_at(firsts, goal), word_at(firsts, goal + 1)
        rest = word_at(word_at(header, GOAL_REST), goal)
        necessary = _necessary(header, scratch, row, first, end, listed, rest)
        if necessary == -2:
            return -1
        if necessary >= 0:
            bits = word_at(header, NECESSARY) + 8 * width * necessary
            top, possible = _push(bits, width, enabled, growing, stack, top, possible)
    return _close(header, scratch, row, top, possible, limit)


@loop
def _shows(header, scratch):  # type: ignore[no-untyped-def]
    """Whether a possible action in the growing set is visible to an open goal."""
    enabled, growing = enabled_set(header, scratch), growing_set(header, scratch)
    visible = _visible_set(header, scratch)
    for k in range(word_at(header, WIDTH)):
        if word_at(growing, k) & word_at(enabled, k) & word_at(visible, k) != 0:
            return True
    return False


@loop
def _observe(header, scratch, actions, count, open_goals):  # type: ignore[no-untyped-def]
    """Writes the sets of possible and of visible actions; returns how many are possible."""
    width = word_at(header, WIDTH)
    enabled, visible = enabled_set(header, scratch), _visible_set(header, scratch)
    for k in range(width):
        set_word(enabled, k, 0)
        set_word(visible, k, 0)
    for step in range(count):
        _add(enabled, word_at(actions, step) & 0xFFFFFFFF)
    for goal in range(word_at(header, GOALS)):
        if (open_goals >> goal) & 1 != 0:
            bits = word_at(header, VISIBLE) + 8 * width * goal
            for k in range(width):
                set_word(visible, k, word_at(visible, k) | word_at(bits, k))
    possible = 0
    for k in range(width):
        possible += count_bits(word_at(enabled, k))
    return possible


@loop
def _try_actions(header, scratch, row, best, open_goals):  # type: ignore[no-untyped-def]
    """Closes the sets of single actions, and chooses one with fewer possible actions than `best`, none of
    them visible to an open goal; returns how many it has, or `best` if there is none."""
    tried = 0
    enabled = enabled_set(header, scratch)
    for k in range(word_at(header, WIDTH)):
        left = word_at(enabled, k)
        while left != 0 and best > 1 and tried < STARTS_MAX:
            action = 64 * k + lowest_bit(left)
            left &= left - 1
            if open_goals != 0 and has(_visible_set(header, scratch), action):
                continue
            tried += 1
            size = _from_action(header, scratch, row, action, best)
            if size > 0 and (open_goals == 0 or not _shows(header, scratch)):
                _choose(header, scratch)
                best = size
    return best


@loop
def choose(header, scratch, row, actions, count, open_goals):  # type: ignore[no-untyped-def]
    """Chooses a stubborn set with few possible actions for the state with the row, whose steps have these
    actions; says what to do with it. It is a function of the state and of the open goals."""
    possible = _observe(header, scratch, actions, count, open_goals)
    if possible < 2:
        return FULL
    may_fault = word_at(header, MAY_FAULT) != 0
    best = _try_actions(header, scratch, row, possible, open_goals)
    way = FULL if best == possible else UNDER_PROVISO if may_fault or open_goals != 0 else CHOSEN
    if open_goals == 0 or best == 1:
        return way
    size = _from_goals(header, scratch, row, open_goals, best)
    if size > 0:
        _choose(header, scratch)
        return UNDER_PROVISO if may_fault else CHOSEN
    if size == 0:
        # No run from here reaches a goal, so that none needs to be preserved.
        fewest = _try_actions(header, scratch, row, best, 0)
        if fewest < best:
            return UNDER_PROVISO if may_fault else CHOSEN
    return way


@loop
def choose_unseen(header, scratch, row, actions, count):  # type: ignore[no-untyped-def]
    """Like `choose` for a property of runs, which is goal 0: no possible action of the set is visible."""
    possible = _observe(header, scratch, actions, count, 1)
    if possible < 2:
        return FULL
    best = _try_actions(header, scratch, row, possible, 1)
    return FULL if best == possible else UNDER_PROVISO


@loop
def _lacks_unseen(header, scratch):  # type: ignore[no-untyped-def]
    """An invisible possible action, if there is one but none in the growing set; else -1."""
    enabled, growing = enabled_set(header, scratch), growing_set(header, scratch)
    visible = _visible_set(header, scratch)
    found = -1
    for k in range(word_at(header, WIDTH)):
        unseen = word_at(enabled, k) & ~word_at(visible, k)
        if unseen & word_at(growing, k) != 0:
            return -1
        if unseen != 0 and found < 0:
            found = 64 * k + lowest_bit(unseen)
    return found


@loop
def choose_seen(header, scratch, row, is_chosen):  # type: ignore[no-untyped-def]
    """Chooses a stubborn set with all watched actions, after `choose_unseen`: it contains the set that was
    chosen then, if any, and an invisible possible action if there is one."""
    width = word_at(header, WIDTH)
    enabled, growing = enabled_set(header, scratch), growing_set(header, scratch)
    chosen, stack = chosen_set(header, scratch), _stack(header, scratch)
    _begin(header, scratch)
    possible, size = 0, 0
    for k in range(width):
        possible += count_bits(word_at(enabled, k))
        if is_chosen:
            set_word(growing, k, word_at(chosen, k))
            size += count_bits(word_at(chosen, k) & word_at(enabled, k))
    top, size = _push(word_at(header, WATCHED), width, enabled, growing, stack, 0, size)
    size = _close(header, scratch, row, top, size, possible)
    if size < 0:
        return FULL
    lacking = _lacks_unseen(header, scratch)
    if lacking >= 0:
        _add(growing, lacking)
        set_word(stack, 0, lacking)
        if _close(header, scratch, row, 1, size + 1, possible) < 0:
            return FULL
    _choose(header, scratch)
    return CHOSEN
