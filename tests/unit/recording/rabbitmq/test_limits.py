"""The messages that RabbitMQ may have in flight to a channel."""

from __future__ import annotations

from veristream.recording.rabbitmq.limits import UNLIMITED, Limits

HERE = (0, -1)


def test_without_a_prefetch_there_is_no_limit() -> None:
    limits = Limits()
    limits.add("q", limited=True)
    assert limits.of("q") == UNLIMITED
    assert limits.changed("q", HERE) is None


def test_each_consumer_has_the_prefetch_that_was_set_before_it() -> None:
    limits = Limits()
    limits.set(3, whole=False)
    limits.add("q", limited=True)
    limits.set(5, whole=False)
    limits.add("q", limited=True)
    limits.add("other", limited=True)
    assert (limits.of("q"), limits.of("other")) == (8, 5)


def test_the_channel_limits_all_of_them() -> None:
    limits = Limits()
    limits.set(4, whole=True)
    limits.add("q", limited=True)
    assert limits.of("q") == 4
    limits.set(3, whole=False)
    limits.add("other", limited=True)
    assert limits.of("other") == 3
    limits.set(0, whole=True)
    assert (limits.of("q"), limits.of("other")) == (UNLIMITED, 3)


def test_a_consumer_without_acknowledgements_has_none() -> None:
    limits = Limits()
    limits.set(4, whole=True)
    limits.add("q", limited=False)
    assert limits.of("q") == UNLIMITED


def test_what_is_got_one_by_one_comes_on_top() -> None:
    limits = Limits()
    limits.set(2, whole=False)
    limits.add("q", limited=True)
    limits.add_one()
    assert limits.of("q") == 3


def test_what_remains_is_never_too_low() -> None:
    limits = Limits()
    limits.set(3, whole=False)
    limits.add("q", limited=True)
    limits.set(0, whole=False)
    limits.add("q", limited=True)
    limits.remove("q")
    assert limits.of("q") == UNLIMITED
    limits.remove("q")
    limits.remove("q")
    assert limits.of("q") == UNLIMITED


def test_a_limit_is_told_when_it_changes() -> None:
    limits = Limits()
    limits.set(3, whole=False)
    limits.add("q", limited=True)
    assert limits.changed("q", HERE) == 3
    assert limits.changed("q", HERE) is None
    assert limits.changed("q", (1, 0)) == 3
    limits.set(0, whole=False)
    limits.add("q", limited=True)
    assert limits.changed("q", HERE) == UNLIMITED
