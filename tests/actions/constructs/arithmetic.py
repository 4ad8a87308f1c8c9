"""Numbers: Python's rounding, negative numbers, chained comparisons, min, max, conditions."""

from veristream.actions import *

N = constant(3)
HALF = N // 2 + 1
LOW = -N

x: Int[LOW, N] = 0
y: Int[-10, 10] = LOW % 4
flag: bool = False


@action
def step(by: Int[-1, 2]):
    global x, y, flag
    require(LOW <= x + by <= N and by != 0)
    old = x
    x += by
    y = (old * 2 - by) // 2 - x % 3 + max(x, old, 0) - min(-x, by)
    flag = x < old <= y or not flag


@action
def divide():
    global x, y
    require(y != 0)
    x = -(x // HALF) if x > 0 else x // 2
    y = (y + x) // 3 * HALF % 7


@action
def fail():
    """Fails for some values: no range, no division by zero."""
    global x
    require(flag and x in range(-2, 2))
    x = 6 // x + x


@always
def small():
    return -3 <= x < 3 or y in (0, 1, 2) or y not in range(-4, HALF)
