"""What a replay holds of what clients and brokers say, without any of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack

import pytest
from confluent_kafka import KafkaError

from tests.unit.brokers.test_steering import Notes
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.pieces import Direction, Hold, KafkaFrames, Pass, Piece
from veristream.brokers.proxy.steering import Steering
from veristream.errors import ModelError
from veristream.recording.kafka.running import between_name
from veristream.replay.counterparts import Call, Deliver, Do, Itself, Return, Sent
from veristream.replay.course import Answer
from veristream.replay.execution import Given
from veristream.replay.kafka.replicas import Replicas
from veristream.replay.kafka.run import execute_on_kafka, waiting_answers
from veristream.replay.kafka.wire import Asked, KafkaWire
from veristream.replay.plan import Plan, Planned

AT_ONCE_S = 0.0
PATIENCE_S = 10.0
TWO = {("P(0)", "InitProducerId"): 2}


@dataclass
class Line:
    """A connection through a proxy: what is said on it is steered, and passes if it may."""

    steering: Steering
    node: str
    number: int
    framing: KafkaFrames = field(default_factory=KafkaFrames)
    said: int = 0

    def say(self, direction: Direction, body: bytes) -> threading.Event:
        """Says something; the event is set once it has passed."""
        data, gone = pack(">i", len(body)) + body, threading.Event()
        request = self.framing.request(direction, bytearray(data))
        decision = self.steering(Piece(self.node, self.number, direction, self.said, data, request))
        self.said += 1

        def go_on() -> None:
            assert isinstance(decision, Pass | Hold)
            if decision.then is not None:
                decision.then()
            gone.set()

        match decision:
            case Hold(gate):
                if gate.arrive(go_on):
                    go_on()
            case _:
                go_on()
        return gone

    def ask(self, correlation: int, client: bytes = b"P(0)") -> threading.Event:
        """Asks for a producer id."""
        head = pack(">hhih", Key.INIT_PRODUCER_ID, 1, correlation, len(client)) + client
        return self.say("to broker", head + pack(">h", 3) + b"t-1" + pack(">i", 60_000))

    def answer(self, correlation: int, error: int, epoch: int) -> threading.Event:
        """Answers with a producer id."""
        return self.say("to client", pack(">iihqh", correlation, 0, error, 4000, epoch))

    def mark(self, correlation: int, partition: int) -> threading.Event:
        """Sends a marker."""
        head = pack(">hhih", Key.WRITE_TXN_MARKERS, 0, correlation, 1) + b"c"
        topics = pack(">ih", 1, 6) + b"orders" + pack(">ii", 1, partition)
        return self.say("to broker", head + pack(">iqh?", 1, 4000, 0, False) + topics + pack(">i", 0))


def test_an_answer_that_comes_later_waits_until_its_client_may_hear_it() -> None:
    steering = Steering()
    wire, line = (
        KafkaWire(steering, Asked(TWO, later=("InitProducerId 1 of P(0)",))),
        Line(steering, "b", 0),
    )
    asked = line.ask(1)
    held = wire.take("P(0)", "InitProducerId", AT_ONCE_S)
    assert held is not None
    assert (held.title, asked.is_set()) == ("InitProducerId 1 of P(0)", False)
    assert wire.deliver(held, AT_ONCE_S) == Answer(None)
    assert asked.is_set()
    assert wire.wait_later(AT_ONCE_S) is None
    answered = line.answer(1, 0, 7)
    assert wire.wait_later(AT_ONCE_S) == Answer("")
    assert wire.wait_later(AT_ONCE_S) is None  # there is one answer
    assert (answered.is_set(), wire.epoch("P(0)")) == (False, None)
    wire.let_hear("P(0)")
    assert (answered.is_set(), wire.epoch("P(0)"), wire.epoch("P(1)")) == (True, 7, None)


def test_an_epoch_is_awaited_while_the_client_asks_again_for_it() -> None:
    steering = Steering()
    wire, line = KafkaWire(steering, Asked({})), Line(steering, "b", 0)
    line.ask(1)
    line.answer(1, 0, 0)
    assert wire.epoch("P(0)", PATIENCE_S) == 0
    line.ask(2)
    line.answer(2, KafkaError.CONCURRENT_TRANSACTIONS, -1)
    assert wire.epoch("P(0)", AT_ONCE_S) == 0
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(wire.epoch, "P(0)", PATIENCE_S)
        line.ask(3)
        line.answer(3, 0, 1)
        assert waiting.result() == 1
    line.ask(4)
    line.answer(4, KafkaError.INVALID_PRODUCER_EPOCH, -1)
    assert wire.epoch("P(0)", PATIENCE_S) == 1, "nobody asks again after that"


def test_no_answer_is_awaited_from_a_broker_that_is_gone() -> None:
    steering = Steering()
    titles = ("InitProducerId 1 of P(0)", "InitProducerId 2 of P(0)")
    wire, former, other = (
        KafkaWire(steering, Asked(TWO, later=titles)),
        Line(steering, "b", 0),
        Line(steering, "c", 1),
    )
    for line, correlation in ((former, 1), (other, 2)):
        line.ask(correlation)
        held = wire.take("P(0)", "InitProducerId", AT_ONCE_S)
        assert held is not None
        wire.deliver(held, AT_ONCE_S)
    unheard = former.answer(1, 0, 0)
    wire.forget_answers("b")
    assert wire.wait_later(AT_ONCE_S) is None
    heard = other.answer(2, 51, -1)
    assert wire.wait_later(AT_ONCE_S) == Answer("CONCURRENT_TRANSACTIONS")
    wire.let_hear("P(0)")
    assert (unheard.is_set(), heard.is_set()) == (False, True)


def test_an_answer_that_nobody_hears_is_known_and_stays_at_the_proxy() -> None:
    steering = Steering()
    wire, line = (
        KafkaWire(steering, Asked(TWO, unheard=("InitProducerId 1 of P(0)",))),
        Line(steering, "b", 0),
    )
    line.ask(1)
    held = wire.take("P(0)", "InitProducerId", AT_ONCE_S)
    assert held is not None
    found: list[Answer | None] = []
    waiting = threading.Thread(target=lambda: found.append(wire.deliver(held, PATIENCE_S)))
    waiting.start()
    while not steering.passed:
        waiting.join(0.01)
    answered = line.answer(1, 51, -1)
    waiting.join()
    assert [one.error for one in found if one is not None] == ["CONCURRENT_TRANSACTIONS"]
    assert not answered.is_set()
    wire.release_all()
    assert answered.is_set()


def test_what_waits_in_front_of_a_broker_that_is_gone_is_asked_again_and_held_again() -> None:
    steering = Steering()
    wire, former, other = KafkaWire(steering, Asked(TWO)), Line(steering, "b", 0), Line(steering, "c", 1)
    former.ask(1)
    first = wire.take("P(0)", "InitProducerId", AT_ONCE_S)
    assert first is not None
    assert wire.lose("c") == []
    lost = wire.lose("b")
    assert lost == [first.number]
    assert wire.find_again(lost, AT_ONCE_S) == "P(0) did not ask again: InitProducerId 1 of P(0)"
    again = other.ask(1)
    assert wire.find_again(lost, AT_ONCE_S) == ""
    assert not again.is_set()
    assert wire.deliver(first, AT_ONCE_S) is None  # nobody has answered
    assert again.is_set()
    assert wire.lose("c") == []  # it was delivered
    beyond = [other.ask(2), other.ask(3)]
    second = wire.take("P(0)", "InitProducerId", AT_ONCE_S)
    assert second is not None
    assert second.title == "InitProducerId 2 of P(0)"
    assert [one.is_set() for one in beyond] == [False, True]


def test_spare_requests_wait_too() -> None:
    steering = Steering()
    KafkaWire(steering, Asked(TWO, spare=1))
    line = Line(steering, "b", 0)
    assert [line.ask(number).is_set() for number in range(4)] == [False, False, False, True]
    assert line.ask(4, b"P(1)").is_set()


def test_the_answer_to_a_marker_waits_until_the_transaction_is_complete() -> None:
    steering = Steering()
    wire, line = KafkaWire(steering, Asked({})), Line(steering, "b", 0)
    wire.hold_markers("orders", 1)
    line.mark(1, 0)
    assert wire.deliver_marker(0, AT_ONCE_S)
    answered = line.answer(1, 0, 0)
    assert not answered.is_set()
    wire.let_complete()
    assert answered.is_set()


def test_markers_wait_for_their_turn_and_those_of_a_former_coordinator_for_ever() -> None:
    steering = Steering()
    wire, line = KafkaWire(steering, Asked({})), Line(steering, "b", 0)
    wire.hold_markers("orders", 2)
    former = [line.mark(1, 0), line.mark(2, 1)]
    assert wire.deliver_marker(1, AT_ONCE_S)
    assert [one.is_set() for one in former] == [False, True]
    assert not wire.deliver_marker(1, AT_ONCE_S)
    wire.forget_markers(2)
    assert not wire.deliver_marker(0, AT_ONCE_S)
    latter = [line.mark(3, 0), line.mark(4, 1)]
    assert wire.deliver_marker(0, AT_ONCE_S)
    assert wire.deliver_marker(1, AT_ONCE_S)
    assert [one.is_set() for one in (*former, *latter)] == [False, True, True, True]


@dataclass
class Cluster:
    """Brokers that are there, and stand for those of `RunningKafka`."""

    names: tuple[str, ...]

    @property
    def local(self) -> Cluster:
        return self

    def nodes(self) -> list[str]:
        return list(self.names)

    def find(self) -> Mapping[str, None]:
        return dict.fromkeys(self.names)


@contextmanager
def fetching(steering: Steering, leader: str, followers: Mapping[int, list[int]]) -> Iterator[None]:
    """Lets followers fetch one time after the other, and notes the number of each fetch that has passed."""
    is_over = threading.Event()

    def fetch(number: int, passed: list[int]) -> None:
        line, name = Line(steering, between_name(leader), number), f"broker-{number}-fetcher-0".encode()
        for correlation in range(10**9):
            gone = line.say("to broker", pack(">hhih", Key.FETCH, 12, correlation, len(name)) + name)
            while not gone.wait(0.002):
                if is_over.is_set():
                    return
            passed.append(correlation)
            if is_over.wait(0.002):
                return

    threads = [threading.Thread(target=fetch, args=each) for each in followers.items()]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        is_over.set()
        for each in threads:
            each.join()


def test_the_log_is_replicated_when_the_run_says_so() -> None:
    steering, passed = Steering(), {2: list[int](), 3: list[int]()}
    kafka = Cluster(("broker-1", "broker-2", "broker-3"))
    replicas = Replicas(kafka, Notes(), steering, ["t-1"], PATIENCE_S, "broker-1")  # type: ignore[arg-type]
    with fetching(steering, "broker-1", passed):
        assert replicas.hold_log() == ""
        before = {number: len(each) for number, each in passed.items()}
        assert replicas.fetch_once() == ""
        assert {number: len(each) for number, each in passed.items()} == {
            number: count + 1 for number, count in before.items()
        }
        assert replicas.replicate() == ""
        after = {number: len(each) for number, each in passed.items()}
        assert all(after[number] >= before[number] + 4 for number in passed)
        assert len(steering.held()) == 2


def test_a_log_without_followers_that_fetch_is_not_held() -> None:
    kafka = Cluster(("broker-1", "broker-2"))
    replicas = Replicas(kafka, Notes(), Steering(), ["t-1"], AT_ONCE_S, "broker-1")  # type: ignore[arg-type]
    assert "`fetch 1 of broker-2 from broker-1`" in replicas.hold_log()


def step(number: int, process: str, counterpart: object, message: str = "", *arguments: str) -> Planned:
    sends = isinstance(counterpart, Call | Sent)
    name = ("wire", process if sends else "P(0)", message) if message else None
    takes, adds = (None, name) if sends else (name, None)
    return Planned(number, "a", process, arguments, counterpart, takes, adds)  # type: ignore[arg-type]


def test_an_answer_is_heard_in_the_next_step_of_its_client_unless_it_is_lost_before() -> None:
    first = [
        step(1, "P(0)", Call("open", "InitProducerId", "wire"), "1"),
        step(2, "C(0)", Deliver("wire", "any"), "1"),
    ]
    one = {"InitProducerId 1 of P(0)"}
    assert waiting_answers(Plan((*first, step(3, "P(0)", Return("ok"))))) == (set(), set())
    assert waiting_answers(Plan((*first, step(3, "P(1)", Return("ok"))))) == (set(), one)
    for lost, unheard in (("1", one), ("0", set())):
        run = [*first, step(3, "C(0)", Do("fail over"), "", lost), step(4, "P(0)", Itself("asks again"))]
        assert waiting_answers(Plan(tuple(run))) == (set(), unheard)


def test_an_answer_may_come_in_a_later_step() -> None:
    run = [
        step(1, "P(0)", Call("open", "InitProducerId", "wire"), "1"),
        step(2, "C(0)", Deliver("wire", "refused"), "1"),
        step(3, "P(0)", Sent("InitProducerId", "wire"), "1"),
        step(4, "C(0)", Deliver("wire", None), "1"),
        step(5, "P(0)", Sent("Produce", "wire"), "2"),
        step(6, "C(0)", Deliver("wire", "ok"), "2"),
    ]
    assert waiting_answers(Plan(tuple(run))) == ({"InitProducerId 2 of P(0)"}, set())


@pytest.mark.parametrize(
    ("failovers", "partitions", "message"),
    [
        (2, 1, "step 3, a\\(1\\) of C\\(0\\) kills a second broker of three"),
        (1, 3, "markers to 3 partitions cannot be told apart"),
    ],
)
def test_a_run_that_needs_more_brokers_is_an_error_before_any_is_started(
    tmp_path: Path, failovers: int, partitions: int, message: str
) -> None:
    run = [step(1, "P(0)", Call("open", "InitProducerId", "wire"), "1")]
    run += [step(at, "C(0)", Do("fail over"), "", "1") for at in range(2, 2 + failovers)]
    given = Given({}, {"PARTITIONS": partitions}, PATIENCE_S, "a run")
    with pytest.raises(ModelError, match=message):
        execute_on_kafka(Plan(tuple(run)), given, tmp_path, lambda one: None, lambda words: None)
    assert list(tmp_path.iterdir()) == []
