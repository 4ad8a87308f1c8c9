"""Sets: every operator and method, literals, comprehensions, aliases, loops over a copy."""

from veristream.actions import *

N = constant(3)


class Color(Enum):
    RED = 0
    GREEN = 1
    BLUE = auto()


numbers: Set[Int[1, N]] = {1}
colors: Set[Color] = set()
odd: Set[Int[0, N]] = set()
size: Int[0, 9] = 0


@action
def add():
    global size
    n = any_of(range(1, N + 1))
    require(n not in numbers)
    mine = numbers
    numbers.add(n)
    size = len(mine) + sum(c in colors for c in Color)


@action
def paint(color: Color):
    global colors, odd
    require(color not in colors or len(numbers) == N)
    colors = colors ^ {color} if len(colors) < 2 else colors - {Color.RED, color}
    odd = {n + 1 for n in numbers if n < N} | {0}


@action
def shrink():
    """The loop runs over the union as it was."""
    global numbers
    require({1, 2} <= numbers and numbers & odd != set())
    for n in numbers | odd:
        if n > 0:
            numbers.discard(n)
        odd.add(N - n)
    numbers |= {N}


@action
def forget():
    n = any_of(numbers)
    require(numbers >= {n} and odd != {0})
    numbers.remove(n)
    odd.clear()


@action
def take():
    """Fails where there is no 2."""
    require(colors == {Color.GREEN})
    numbers.remove(2)


@always
def bounded():
    return {n for n in numbers if n > 1} <= odd | {2, 3} and all(c in colors for c in colors)


@exists
def full():
    return colors == {c for c in Color if c in colors or len(colors) > 1} and len(odd) > 2
