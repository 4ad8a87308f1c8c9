"""The water jugs of *Die Hard 3*: measure four gallons with a jug of three and a jug of five.

Lamport's first example in his TLA+ video course (lecture 4, "Die Hard"). TLC finds 16 states; the
shortest way to four gallons takes 6 steps.
"""

from veristream.actions import *

SMALL = constant(3)
BIG = constant(5)
GOAL = constant(4)

small: Int[0, SMALL] = 0
big: Int[0, BIG] = 0


@action
def fill_small():
    global small
    small = SMALL


@action
def fill_big():
    global big
    big = BIG


@action
def empty_small():
    global small
    small = 0


@action
def empty_big():
    global big
    big = 0


@action
def pour_small_into_big():
    global small, big
    poured = min(small, BIG - big)
    small -= poured
    big += poured


@action
def pour_big_into_small():
    global small, big
    poured = min(big, SMALL - small)
    big -= poured
    small += poured


@always
def never_the_goal():
    """Violated: the counterexample is how to do it."""
    return big != GOAL


@exists
def the_goal():
    """The same question as a goal: the witness is how to do it."""
    return big == GOAL


@always
def one_jug_is_full_or_empty():
    """Every action fills or empties a jug, so there is always one that needs no measuring."""
    return small in {0, SMALL} or big in {0, BIG}


@eventually
def sooner_or_later():
    """Violated: nobody keeps the heroes from filling and emptying the same jug forever."""
    return big == GOAL


no_deadlock = deadlock_free()
