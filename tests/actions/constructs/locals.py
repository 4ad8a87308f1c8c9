"""Local names: copies of numbers, branches, names set on both paths, no shadowing."""

from veristream.actions import *


class State(Enum):
    A = 0
    B = 1
    C = 2


x: Int[0, 5] = 2
y: Int[0, 5] = 0
state: State = State.A


@action
def copy():
    """A name keeps its value when the state changes."""
    global x, y
    before = x
    x = y
    y = before
    before = x + 1
    x = min(before, 5)


@action
def branch(up: bool):
    global x, state
    delta = 1
    if up:
        delta = 2
        goal = State.B
    elif x > 3:
        goal = State.C
        delta = delta + 1
    else:
        goal = State.A
    require_like = state != goal
    if require_like:
        x = (x + delta) % 6
        state = goal


@action
def assertion():
    """Fails where the assertion does."""
    require(state == State.C)
    assert x != 5, "x is five"
    assert x + y < 8


@action
def both():
    global x
    require(state is State.B and (x == y) != (x == 0))
    flag = x > 1 and y < 4
    value = x if flag else y
    flag = not flag
    x = value if flag == (y == 2) else 5 - value


@transition
def state_moves(s: State):
    return state != s or after(state) == s or after(x) != x or after(y) != y


@eventually
def reaches(n: Int[4, 5]):
    return x == n
