"""Records are values: copies, fields, replace, equality, nesting, and parts that swap."""

from veristream.actions import *


class Inner(Record):
    a: Int[0, 2] = 0
    b: Int[0, 2] = 1


class Outer(Record):
    left: Inner
    right: Inner = Inner(b=2)
    ok: bool = False


top: Outer = Outer(Inner(2, 0))
spare: Inner = Inner()
table: Map[Int[0, 1], Inner] = Inner(a=1)


@action
def swap():
    global top
    top = Outer(left=top.right, right=top.left, ok=not top.ok)


@action
def swap_inside():
    global spare
    pair = replace(spare, a=spare.b, b=spare.a)
    pair = replace(pair, a=pair.b, b=pair.a)
    require(pair == spare)
    spare = replace(top.left, b=pair.a)
    top.left = spare
    top.right.b = top.left.a


@action
def move():
    """The index is part of what is written."""
    table[table[0].a % 2] = table[1]
    table[1].b = (table[1].b + 1) % 3
    table[0].a = table[1].b


@action
def pick():
    global spare
    chosen = top.left if top.ok else spare
    other = one_of(chosen, Inner(b=0), top.right)
    require(chosen != table[0])
    table[1] = chosen
    spare = other


@always
def some():
    return top.left.a <= 2 and (top.right == spare or top.left != top.right or top.ok)
