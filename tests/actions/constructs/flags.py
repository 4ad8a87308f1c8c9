"""Bools, bool constants, identity, equality of conditions, tests that guard against faults."""

from veristream.actions import *

STRICT = constant(True)
SIZE = constant(2)

queue: Seq[bool, SIZE] = [True]
flags: Map[bool, bool] = False
chosen: Set[bool] = set()
last: Maybe[bool] = None


@action
def push(flag: bool):
    require(STRICT and len(queue) < SIZE)
    queue.append(flag)
    flags[flag] = not flags[not flag]


@action
def look():
    global last
    require((len(queue) > 0 and queue[0]) or flags[True] is True)
    last = queue[-1] if len(queue) > 1 else None
    chosen.add(last == True if last is not None else False)  # noqa: E712


@action
def shift():
    global last
    require(last is not None and queue != [])
    flags[True] = queue.pop(0)
    chosen.discard(flags[True])
    last = None


@always
def known():
    return all((f in chosen) == (f in chosen) for f in flags) and (last is None) != (last is not None)


@exists
def both_chosen():
    return chosen == {False, True} and len(queue) == 0
