"""The Java producer: its line protocol with a process that only answers, and what is said without Java."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.brokers import fake_java
from veristream.brokers.java.build import find_client
from veristream.brokers.java.process import CommandProcess, JavaError
from veristream.brokers.java.producer import Delivery, GroupMember, JavaProducer
from veristream.brokers.kafka import Program
from veristream.errors import EnvironmentFailure

ANSWER_S = 20.0


@pytest.fixture
def process(tmp_path: Path) -> Iterator[CommandProcess]:
    one = CommandProcess([sys.executable, fake_java.__file__], tmp_path / "log.txt")
    yield one
    one.end()


@pytest.fixture
def producer(process: CommandProcess) -> JavaProducer:
    return JavaProducer({"acks": "all"}, process=process)


@dataclass(frozen=True)
class Place:
    topic: str
    partition: int
    offset: int


def test_a_transaction(producer: JavaProducer) -> None:
    told: list[tuple[JavaError | None, Delivery]] = []
    producer.init_transactions(ANSWER_S)
    assert (producer.producer_id, producer.epoch) == (7, 0)
    producer.begin_transaction()
    pending = producer.produce("t", b"\x00\xff", partition=2, on_delivery=lambda *each: told.append(each))
    assert pending.wait(ANSWER_S)["offset"] == 44
    assert producer.flush(ANSWER_S) == 0
    assert told == [(None, Delivery("t", 2, 44))]
    producer.abort_transaction(ANSWER_S)
    assert producer.epoch == 1


def test_a_record_is_under_way_while_other_commands_are_obeyed(producer: JavaProducer) -> None:
    told: list[tuple[str, Delivery]] = []
    producer.produce("kept", b"", on_delivery=lambda error, where: told.append((str(error), where)))
    assert (len(producer), told) == (1, [])
    producer.abort_transaction(ANSWER_S)
    assert producer.poll(ANSWER_S) == 1
    assert told == [("TimeoutException: too late", Delivery("kept", -1, -1))]
    assert (len(producer), producer.poll(ANSWER_S)) == (0, 0)


def test_an_exception_is_raised_as_it_was_thrown(producer: JavaProducer) -> None:
    with pytest.raises(JavaError, match="fenced") as fenced:
        producer.commit_transaction(ANSWER_S)
    assert fenced.value.kind == "org.apache.kafka.common.errors.ProducerFencedException"
    assert (fenced.value.name, fenced.value.must_abort) == ("ProducerFencedException", True)
    with pytest.raises(JavaError) as refused:
        producer.produce("refused").wait(ANSWER_S)
    assert (refused.value.name, refused.value.queued) == ("IllegalStateException", False)


def test_offsets_go_with_the_member(process: CommandProcess) -> None:
    producer = JavaProducer({}, process=process)
    producer.send_offsets_to_transaction([Place("t", 1, 5)], GroupMember("g", 3, "m"), ANSWER_S)
    told = producer.give("offsets", offsets=[("t", 1, 5)], group="g", generation=3, member="m").wait(
        ANSWER_S
    )
    assert {key: told["echo"][key] for key in ("offsets", "group", "generation", "member")} == {
        "offsets": [["t", 1, 5]],
        "group": "g",
        "generation": 3,
        "member": "m",
    }


def test_a_command_that_is_not_answered_stays_under_way(process: CommandProcess) -> None:
    pending = process.give("sleep")
    with pytest.raises(JavaError, match=r"NoAnswer: sleep was not answered within 0\.01 s"):
        pending.wait(0.01)
    process.kill()
    with pytest.raises(JavaError, match="ProcessEnded"):
        pending.wait(ANSWER_S)
    with pytest.raises(JavaError, match="ProcessEnded"):  # one that comes too late
        process.give("begin").wait(ANSWER_S)


def test_a_killed_client_leaves_its_records_open(producer: JavaProducer) -> None:
    told: list[str] = []
    producer.produce("kept", b"", on_delivery=lambda error, where: told.append(error.name if error else ""))
    producer.kill()
    assert (told, len(producer)) == (["ProcessEnded"], 0)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("babble", "the Java client answered b'what?\\n', which no command awaits"),
        ("wrong", """the Java client answered b'{"id": 99}\\n', which no command awaits"""),
        ("die", "the Java client ended with exit code 3: java.lang.OutOfMemoryError: heap"),
    ],
)
def test_a_client_that_fails_is_told_of(producer: JavaProducer, verb: str, said: str) -> None:
    with pytest.raises(JavaError, match="ProcessEnded"):
        producer.give(verb).wait(ANSWER_S)
    with pytest.raises(EnvironmentFailure) as failed:
        producer.begin_transaction()
    assert failed.value.message == said
    with pytest.raises(EnvironmentFailure):
        producer.produce("t", b"")
    assert len(producer) == 0


def test_a_client_that_does_not_start_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure) as failed:
        CommandProcess([str(tmp_path / "java")], tmp_path / "log.txt")
    assert failed.value.message == f"cannot start {tmp_path / 'java'}: No such file or directory"


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java() -> Path:
        raise EnvironmentFailure("Spark needs Java")

    monkeypatch.setattr("veristream.brokers.kafka.find_java", find_java)
    with pytest.raises(EnvironmentFailure) as failed:
        JavaProducer({"bootstrap.servers": "127.0.0.1:1"})
    assert failed.value.render() == (
        "error: Kafka needs Java 17 or newer, and none was found\nhint: install a JDK and set JAVA_HOME"
    )


def test_what_the_compiler_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "ecj"
    jars.mkdir()
    (jars / "ecj.jar").touch()
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\necho '1. ERROR in Client.java (at line 1)' >&2; exit 255\n", encoding="utf-8"
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("veristream.brokers.java.build.resolve", lambda bundle: jars)
    with pytest.raises(EnvironmentFailure) as failed:
        find_client(Program(java, tmp_path))
    assert failed.value.message == "cannot compile the Java client: 1. ERROR in Client.java (at line 1)"
    assert list((tmp_path / "cache" / "java-client").iterdir()) == []
