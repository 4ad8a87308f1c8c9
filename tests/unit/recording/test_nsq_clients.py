"""Clients of NSQ that write journals: what they learn of each command, and what they cannot know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.brokers.fake_nsqd import Answer, Client, FakeNsqd, fake_nsqd
from tests.unit.recording.histories import read_back
from veristream.brokers.nsq.connection import Refused
from veristream.brokers.nsq.protocol import FENCE, Message
from veristream.errors import ModelError
from veristream.history.events import NONE, Event, Operation
from veristream.history.identity import encode_payload
from veristream.history.manifest import Manifest, Stream
from veristream.recording.digest import digest
from veristream.recording.nsq.clients import FENCE_EVERY, Consumer, Node, NsqRecorder, Publisher
from veristream.recording.recording import Recording

HELD = "TOUCH " + FENCE.decode()


def record(
    folder: Path, work: Callable[[NsqRecorder, Node], None], nsqd: FakeNsqd, timeout_ms: int = 60_000
) -> tuple[Manifest, list[Event]]:
    with Recording(folder / "h", "nsq") as recording:
        work(NsqRecorder(recording, timeout_ms), Node("nsqd-1", nsqd.address))
        recording.finish()
    return read_back(folder / "h")


def ends(events: list[Event], operation: Operation) -> list[tuple[int, str, str]]:
    """The number of the message, the outcome and the error of each event."""
    return [(each.number, each.outcome.name, each.error) for each in events if each.operation is operation]


def refuse(word: str, error: str) -> Answer:
    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.partition(" ")[0] != word:
            return False
        client.refuse(error)
        client.cut()
        return True

    return answer


def id_of(number: int) -> bytes:
    return b"%016x" % number


def deliver(count: int, producer: int = 0) -> Answer:
    """Delivers messages when RDY comes."""

    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("RDY"):
            for number in range(count):
                client.deliver(id_of(number), encode_payload(producer, number, b"body"))
            return True
        return False

    return answer


def either(*answers: Answer) -> Answer:
    return lambda client, line, body: any(each(client, line, body) for each in answers)


def consume(recorder: NsqRecorder, node: Node, count: int) -> tuple[Consumer, list[Message]]:
    consumer = recorder.consumer(node, "orders", "billing")
    consumer.ready(count)
    taken = [message for _ in range(count) if (message := consumer.receive(10)) is not None]
    assert len(taken) == count
    return consumer, taken


def test_each_message_of_a_command_is_a_send(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        publisher = recorder.publisher(node, "orders")
        assert publisher.publish(b"a")
        assert publisher.publish(b"b", b"c")
        publisher.close()
        with pytest.raises(ValueError, match="nothing to publish"):
            publisher.publish()

    with fake_nsqd() as nsqd:
        manifest, events = record(tmp_path, work, nsqd)
    assert nsqd.seen[1:] == [
        ("PUB orders", b"vs:0:0;a"),
        ("MPUB orders", b"\0\0\0\2\0\0\0\x08vs:0:1;b\0\0\0\x08vs:0:2;c"),
    ]
    assert ends(events, Operation.SEND) == [
        (0, "INVOKE", ""), (0, "OK", ""),
        (1, "INVOKE", ""), (2, "INVOKE", ""), (1, "OK", ""), (2, "OK", ""),
    ]  # fmt: skip
    assert {each.digest for each in events if each.number == 0} == {digest(b"vs:0:0;a")}
    assert manifest.streams == (Stream("orders", False, None, None, 30_000_000_000),)
    assert (manifest.nodes, [each.name for each in manifest.processes]) == (
        ("nsqd-1",), ["publisher@nsqd-1"],
    )  # fmt: skip
    assert {(each.stream, each.partition, each.node) for each in events[:-1]} == {(0, 0, 0)}
    assert events[-1].operation is Operation.CLOSE


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ('E_BAD_TOPIC PUB topic name "" is not valid', "FAIL"),
        ("E_BAD_MESSAGE PUB message too big 9 > 8", "FAIL"),
        ("E_UNAUTHORIZED AUTH failed for PUB", "FAIL"),
        ("E_PUB_FAILED PUB failed exiting", "FAIL"),
        ("E_PUB_FAILED PUB failed write: no space left on device", "INDEFINITE"),
        ("E_WHATEVER", "INDEFINITE"),
    ],
)
def test_only_an_error_before_the_queue_is_a_failure(tmp_path: Path, error: str, outcome: str) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        publisher = recorder.publisher(node, "orders")
        assert not publisher.publish(b"a")

    with fake_nsqd(refuse("PUB", error)) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert ends(events, Operation.SEND) == [(0, "INVOKE", ""), (0, outcome, error)]


def test_a_lost_connection_is_indefinite_and_the_next_message_has_a_new_number(tmp_path: Path) -> None:
    cuts = iter([True])

    def cut_first(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("PUB") and next(cuts, False):
            client.cut()
            return True
        return False

    def work(recorder: NsqRecorder, node: Node) -> None:
        publisher = recorder.publisher(node, "orders")
        assert not publisher.publish(b"a")
        assert publisher.publish(b"a")
        publisher.close()

    with fake_nsqd(cut_first) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert nsqd.accepted == 2
    found = ends(events, Operation.SEND)
    assert [each[:2] for each in found] == [(0, "INVOKE"), (0, "INDEFINITE"), (1, "INVOKE"), (1, "OK")]


def test_what_was_never_sent_has_failed(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        nsqd.close()
        assert not recorder.publisher(node, "orders").publish(b"a")

    nsqd = FakeNsqd()
    _, events = record(tmp_path, work, nsqd)
    assert [each[:2] for each in ends(events, Operation.SEND)] == [(0, "INVOKE"), (0, "FAIL")]


def test_a_finish_is_ok_once_a_later_command_is_answered(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 2)
        for each in taken:
            consumer.finish(each)
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(deliver(2)) as nsqd:
        manifest, events = record(tmp_path, work, nsqd)
    assert nsqd.lines == ["SUB orders billing", "RDY 2", f"FIN {0:016x}", f"FIN {1:016x}", HELD]
    assert [(each.operation.name, each.outcome.name, each.number, each.attempt) for each in events] == [
        ("READY", "OK", 2, NONE),
        ("RECEIVE", "OK", 0, 1),
        ("RECEIVE", "OK", 1, 1),
        ("ACKNOWLEDGE", "INVOKE", 0, NONE),
        ("ACKNOWLEDGE", "INVOKE", 1, NONE),
        ("ACKNOWLEDGE", "OK", 0, NONE),
        ("ACKNOWLEDGE", "OK", 1, NONE),
        ("CLOSE", "OK", NONE, NONE),
    ]
    assert manifest.groups == ("billing",)
    assert manifest.processes[0].member_of == 0
    assert {each.group for each in events[:-1]} == {0}


def test_a_heartbeat_proves_nothing(tmp_path: Path) -> None:
    def beat(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("FIN"):
            client.respond(b"_heartbeat_")
        elif line.startswith("TOUCH"):
            client.cut()
        return line.startswith(("FIN", "TOUCH"))

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 1)
        consumer.finish(taken[0])
        with pytest.raises(ConnectionError):
            consumer.receive(10)
        consumer.close()
        consumer.close()  # once is enough

    with fake_nsqd(either(beat, deliver(1))) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert ends(events, Operation.ACKNOWLEDGE) == [
        (0, "INVOKE", ""), (0, "INDEFINITE", "the connection was closed before an answer"),
    ]  # fmt: skip
    assert len(ends(events, Operation.CLOSE)) == 1


@pytest.mark.parametrize("why", ["ID not in flight", "client does not own message"])
def test_a_refused_finish_has_failed_and_the_others_have_not(tmp_path: Path, why: str) -> None:
    def late(client: Client, line: str, body: bytes) -> bool:
        if line == f"FIN {1:016x}":
            client.refuse(f"E_FIN_FAILED {line} failed {why}")
            return True
        return False

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 3)
        for each in taken:
            consumer.finish(each)
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(either(late, deliver(3))) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert ends(events, Operation.ACKNOWLEDGE)[3:] == [
        (1, "FAIL", f"E_FIN_FAILED {why}"), (0, "OK", ""), (2, "OK", ""),
    ]  # fmt: skip


def test_a_second_finish_of_a_message_is_told_from_the_first(tmp_path: Path) -> None:
    """nsqd executes the first one and refuses the second."""
    finished = set()

    def once(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("FIN") and line in finished:
            client.refuse(f"E_FIN_FAILED {line} failed ID not in flight")
        finished.add(line)
        return line.startswith("FIN")

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 1)
        consumer.finish(taken[0])
        consumer.finish(taken[0])
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(either(once, deliver(1))) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert nsqd.lines[2:] == [f"FIN {0:016x}", HELD, f"FIN {0:016x}", HELD]
    acknowledged = [each for each in events if each.operation is Operation.ACKNOWLEDGE]
    assert [(each.call, each.outcome.name) for each in acknowledged[2:]] == [
        (acknowledged[0].call, "OK"), (acknowledged[1].call, "FAIL"),
    ]  # fmt: skip


@pytest.mark.parametrize(("why", "outcome"), [("ID not in flight", "FAIL"), ("exiting", "INDEFINITE")])
def test_a_refused_requeue(tmp_path: Path, why: str, outcome: str) -> None:
    """On a channel that is going, nsqd takes the message from flight before it refuses."""

    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("REQ"):
            client.refuse(f"E_REQ_FAILED REQ {line.split()[1]} failed {why}")
        return line.startswith("REQ")

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 1)
        consumer.requeue(taken[0], 250)
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(either(answer, deliver(1))) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert nsqd.lines[2] == f"REQ {0:016x} 250"
    assert ends(events, Operation.REJECT)[1:] == [(0, outcome, f"E_REQ_FAILED {why}")]


def test_an_error_of_no_command_ends_the_consumer(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 1)
        consumer.finish(taken[0])
        with pytest.raises(Refused, match="E_INVALID invalid command"):
            consumer.receive(10)
        consumer.close()

    with fake_nsqd(either(refuse("FIN", "E_INVALID invalid command"), deliver(1))) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert [each[:2] for each in ends(events, Operation.ACKNOWLEDGE)] == [(0, "INVOKE"), (0, "INDEFINITE")]


def test_fences_come_in_time(tmp_path: Path) -> None:
    """Not only when a consumer waits."""
    count = 2 * FENCE_EVERY + 1

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, count)
        for each in taken:
            consumer.finish(each)
        # With an answer unread, closing would reset the connection, and nsqd might not read all commands.
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(deliver(count)) as nsqd:
        record(tmp_path, work, nsqd)
    assert [at for at, line in enumerate(nsqd.lines[2:]) if line == HELD] == [32, 65, 67]


def test_what_others_published_is_of_nobody(tmp_path: Path) -> None:
    def foreign(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("RDY"):
            client.deliver(id_of(9), b"vs:x:1;", attempts=4)
        return line.startswith("RDY")

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 1)
        consumer.finish(taken[0])
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(foreign) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    receive = next(each for each in events if each.operation is Operation.RECEIVE)
    assert (receive.producer, receive.number, receive.attempt) == (NONE, NONE, 4)
    assert receive.digest == digest(b"vs:x:1;")


def test_a_consumer_that_reads_late_goes_on_as_another_process(tmp_path: Path) -> None:
    """By then nsqd may have sent others in place of those that timed out: they are not counted together."""

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer = recorder.consumer(node, "orders", "billing")
        consumer.ready(3)
        assert consumer.receive(10) is not None
        recorder.reading_ns = 1
        late = consumer.receive(10)
        assert late is not None
        consumer.finish(late)
        assert consumer.settle()
        consumer.close()

    with fake_nsqd(deliver(2)) as nsqd:
        manifest, events = record(tmp_path, work, nsqd, timeout_ms=600_000)
    assert manifest.streams[0].redelivery_ns == 300_000_000_000
    assert [each.name for each in manifest.processes] == ["consumer@nsqd-1"] * 2
    assert [(each.process, each.operation.name, each.number) for each in events] == [
        (0, "READY", 3),
        (0, "RECEIVE", 0),
        (0, "CLOSE", NONE),
        (1, "READY", 3),
        (1, "RECEIVE", 1),
        (1, "ACKNOWLEDGE", 1),
        (1, "ACKNOWLEDGE", 1),
        (1, "CLOSE", NONE),
    ]


def test_what_came_while_settling_is_received_later(tmp_path: Path) -> None:
    def answer(client: Client, line: str, body: bytes) -> bool:
        if line.startswith("FIN"):
            client.deliver(id_of(7), encode_payload(0, 7))
        return line.startswith("FIN")

    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer, taken = consume(recorder, node, 1)
        consumer.finish(taken[0])
        assert consumer.settle()
        message = consumer.receive(0)
        assert message is not None and message.id == id_of(7)
        consumer.close()

    with fake_nsqd(either(answer, deliver(1))) as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert [each.operation.name for each in events][2:5] == ["ACKNOWLEDGE", "ACKNOWLEDGE", "RECEIVE"]


def test_rdy_above_what_nsqd_takes_is_a_mistake(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        consumer = recorder.consumer(node, "orders", "billing")
        with pytest.raises(ModelError, match="nsqd refuses RDY 2501") as caught:
            consumer.ready(2501)
        assert "use 0 to 2500" in caught.value.hint
        consumer.close()

    with fake_nsqd() as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert [each.operation.name for each in events] == ["CLOSE"]


def test_a_subscription_that_nsqd_refuses_is_no_process(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        with pytest.raises(Refused, match="E_BAD_CHANNEL"):
            recorder.consumer(node, "orders", "billing")

    with fake_nsqd(refuse("SUB", "E_BAD_CHANNEL SUB channel name is not valid")) as nsqd:
        manifest, events = record(tmp_path, work, nsqd)
    assert (manifest.processes, events) == ((), [])


def test_publishers_number_their_own_messages(tmp_path: Path) -> None:
    def work(recorder: NsqRecorder, node: Node) -> None:
        both: list[Publisher] = [recorder.publisher(node, "orders", name) for name in ("a", "b")]
        for each in both:
            assert each.publish(b"")
            each.close()

    with fake_nsqd() as nsqd:
        _, events = record(tmp_path, work, nsqd)
    assert {(each.producer, each.number) for each in events if each.operation is Operation.SEND} == {
        (0, 0), (1, 0),
    }  # fmt: skip
