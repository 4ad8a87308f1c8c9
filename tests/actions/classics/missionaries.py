"""Missionaries and cannibals cross a river in a boat for two; cannibals must nowhere outnumber the others.

Amarel's example of how to represent a problem (*On representations of problems of reasoning about
actions*, 1968). Three of each need 11 crossings; four of each cannot cross with this boat.
"""

from veristream.actions import *

PAIRS = constant(3)
SEATS = constant(2)


class Bank(Enum):
    LEFT = 0
    RIGHT = 1


boat: Bank = Bank.LEFT
missionaries: Int[0, PAIRS] = PAIRS  # on the left bank
cannibals: Int[0, PAIRS] = PAIRS


def safe(m, c):
    """So many on the left, and the rest on the right, are at peace."""
    return (m == 0 or m >= c) and (m == PAIRS or PAIRS - m >= PAIRS - c)


@action
def cross_to_the_right(m: Int[0, SEATS], c: Int[0, SEATS]):
    global boat, missionaries, cannibals
    require(boat == Bank.LEFT and 1 <= m + c <= SEATS)
    require(m <= missionaries and c <= cannibals and safe(missionaries - m, cannibals - c))
    boat = Bank.RIGHT
    missionaries -= m
    cannibals -= c


@action
def cross_to_the_left(m: Int[0, SEATS], c: Int[0, SEATS]):
    global boat, missionaries, cannibals
    require(boat == Bank.RIGHT and 1 <= m + c <= SEATS)
    require(missionaries + m <= PAIRS and cannibals + c <= PAIRS)
    require(safe(missionaries + m, cannibals + c))
    boat = Bank.LEFT
    missionaries += m
    cannibals += c


@always
def never_across():
    """Violated: the counterexample is the solution."""
    return missionaries + cannibals > 0


@always
def nobody_is_outnumbered():
    return safe(missionaries, cannibals)


@transition
def the_boat_never_crosses_empty():
    return after(missionaries) != missionaries or after(cannibals) != cannibals


no_deadlock = deadlock_free()
