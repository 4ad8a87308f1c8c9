"""The wire: what waits, in which order it is taken, and what goes on when it is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from veristream.brokers.proxy.pieces import Direction, Hold, Pass, Piece, Request
from veristream.brokers.proxy.script import Match
from veristream.brokers.proxy.steering import Steering
from veristream.brokers.rabbitmq.frames import Method
from veristream.replay.course import Held
from veristream.replay.wire import Kind, Wire

KINDS = {"Publish": Kind(Method.PUBLISH), "Confirm": Kind(Method.ACK, "to client")}
SOON_S = 0.05
"""How long a test waits for what must not come."""

PATIENCE_S = 10.0


@dataclass
class Proxy:
    """Asks about messages as a proxy does, and notes those that go on."""

    steering: Steering
    went_on: list[str] = field(default_factory=list)
    said: int = 0

    def say(self, title: str, method: Method, client: str, direction: Direction = "to broker") -> None:
        self.said += 1
        request = Request(method, 1, self.said, client)
        decision = self.steering(Piece("b", 4, direction, self.said, b"", request))

        def passes(then: Callable[[], None] | None) -> None:
            self.went_on.append(title)
            if then is not None:
                then()

        match decision:
            case Hold(gate, then):
                if gate.arrive(lambda: passes(then)):
                    passes(then)
            case Pass(then=then):
                passes(then)
            case _:
                raise AssertionError(decision)


def test_so_many_messages_of_a_kind_wait_and_are_taken_in_their_order() -> None:
    wire = Wire(Steering(), KINDS, {("P", "Publish"): 2})
    proxy = Proxy(wire.steering)
    for title in ("first", "second", "third"):
        proxy.say(title, Method.PUBLISH, "P")
    proxy.say("of another", Method.PUBLISH, "Q")
    assert proxy.went_on == ["third", "of another"]
    first, second = wire.take("P", "Publish", PATIENCE_S), wire.take("P", "Publish", PATIENCE_S)
    assert first == Held(0, "Publish", "Publish 1 of P")
    assert second == Held(1, "Publish", "Publish 2 of P")
    assert wire.connections("P") == [4]
    assert wire.connections("nobody") == []
    passed = wire.wait_gone(second, PATIENCE_S)
    assert passed is not None
    assert (passed.did, passed.number) == ("passed", 2)
    assert proxy.went_on[2:] == ["second"]
    assert wire.wait_gone(first, PATIENCE_S) is not None
    assert proxy.went_on[3:] == ["first"]


def test_what_brokers_say_waits_at_the_client_too() -> None:
    wire = Wire(Steering(), KINDS, {("P", "Confirm"): 1})
    proxy = Proxy(wire.steering)
    proxy.say("acknowledgement", Method.ACK, "P")
    proxy.say("confirm", Method.ACK, "P", "to client")
    assert proxy.went_on == ["acknowledgement"]
    held = wire.take("P", "Confirm", PATIENCE_S)
    assert held == Held(0, "Confirm", "Confirm 1 to P")
    assert wire.explain() == "Confirm 1 to P waits at the proxy; the last that passed: nothing"
    wire.release_all()
    assert proxy.went_on == ["acknowledgement", "confirm"]
    assert wire.explain().startswith(
        "nothing waits at the proxy; the last that passed: passed to client at b: connection 4, message 2"
    )


def test_what_does_not_come_is_none() -> None:
    wire = Wire(Steering(), KINDS, {("P", "Publish"): 1})
    assert wire.take("P", "Publish", SOON_S) is None
    assert wire.wait_passed(Match(key=Method.NACK), SOON_S, 0) is None
