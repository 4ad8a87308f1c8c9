"""The thread of a client: its calls are in their order, and nobody waits for them."""

from __future__ import annotations

import threading

import pytest

from veristream.replay.caller import Caller
from veristream.replay.course import Answer

SOON_S = 0.05
"""How long a test waits for what must not come."""

PATIENCE_S = 10.0


def test_a_call_is_under_way_until_it_returns() -> None:
    caller, may_end = Caller(), threading.Event()
    assert not caller.is_busy

    def work() -> Answer:
        may_end.wait(PATIENCE_S)
        return Answer("", 1.0)

    caller.call(work)
    assert caller.is_busy
    assert caller.wait_returned(SOON_S) is None
    may_end.set()
    assert caller.wait_returned(PATIENCE_S) == Answer("", 1.0)
    assert not caller.is_busy
    caller.close()


def test_what_is_left_is_done_in_its_order_and_raises_what_it_raises() -> None:
    caller, done = Caller(), list[str]()

    def fail() -> None:
        done.append("fails")
        raise OSError("it is gone")

    caller.call(lambda: Answer("REFUSED"))
    assert caller.wait(lambda: Answer(None), PATIENCE_S) == Answer(None)
    with pytest.raises(OSError, match="it is gone"):
        caller.close(lambda: done.append("first"), fail, lambda: done.append("last"))
    assert done == ["first", "fails", "last"]
    assert caller.wait_returned(PATIENCE_S) == Answer("REFUSED")
