"""The words of each broker: what a table may say, and what is told of a word that means nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.replay.test_plan import PLAIN_RUN, PLAIN_TABLE
from veristream.errors import ModelError
from veristream.known import find_shipped
from veristream.replay.counterparts import Call, Counterpart, Deliver, Do, Sent
from veristream.replay.kafka.stage import WORDS as KAFKA
from veristream.replay.nsq.stage import WORDS as NSQ
from veristream.replay.plan import Plan, Planned, plan
from veristream.replay.rabbitmq.stage import WORDS as RABBITMQ
from veristream.replay.table import FILE_NAME, read_tables
from veristream.replay.words import Words

BROKERS = {"kafka": KAFKA, "nsq": NSQ, "rabbitmq": RABBITMQ}


def one(counterpart: Counterpart) -> Plan:
    return Plan((Planned(1, "act", "P(0)", (), counterpart),))


def test_what_means_something_passes() -> None:
    RABBITMQ.check(plan(PLAIN_RUN, PLAIN_TABLE, {"CONFIRMS": 1}), "handled in order")
    NSQ.check(one(Call("subscribe", "REGISTER", "wire")), "removed stays out")
    NSQ.check(one(Do("await expiry")))


@pytest.mark.parametrize(
    ("words", "counterpart", "message", "hint"),
    [
        (
            RABBITMQ,
            Call("publis"),
            "`publis` is no call of a client of RabbitMQ",
            "did you mean `publish`?",
        ),
        (
            RABBITMQ,
            Sent("Publisch", "w"),
            "`Publisch` is no message of RabbitMQ",
            "did you mean `Publish`?",
        ),
        (
            RABBITMQ,
            Deliver("w", "ok", "Ack", "c"),
            "`Ack` is no message of RabbitMQ",
            "one of Publish, Confirm",
        ),
        (RABBITMQ, Do("explode"), "nobody knows how to do `explode` to RabbitMQ", "one of cut"),
        (KAFKA, Call("opens"), "`opens` is no call of a client of Kafka", "did you mean `open`?"),
        (KAFKA, Do("fail"), "nobody knows how to do `fail` to Kafka", "did you mean `fail over`?"),
        (
            NSQ,
            Call("subscribes"),
            "`subscribes` is no call of a client of NSQ",
            "did you mean `subscribe`?",
        ),
        (NSQ, Sent("PING", "w"), "`PING` is no message of NSQ", "one of REGISTER, UNREGISTER"),
        (
            NSQ,
            Do("await copy"),
            "nobody knows how to do `await copy` to NSQ",
            "did you mean `await copied`?",
        ),
    ],
)
def test_a_word_that_means_nothing_is_an_error(
    words: Words, counterpart: Counterpart, message: str, hint: str
) -> None:
    with pytest.raises(ModelError) as caught:
        words.check(one(counterpart))
    assert caught.value.message.startswith(message)
    assert caught.value.hint == hint


def test_what_nobody_observes_is_an_error() -> None:
    with pytest.raises(ModelError, match="`removed stays in` is nothing that is observed of NSQ") as caught:
        NSQ.check(one(Call("publish")), "removed stays in")
    assert caught.value.hint == "did you mean `removed stays out`?"
    with pytest.raises(ModelError, match="nothing that is observed of Redis") as caught:
        replace(NSQ, broker="Redis", calls=("x",), observed=()).check(one(Call("x")), "y")
    assert caught.value.hint == "one of none"


def test_all_words_of_the_shipped_tables_mean_something() -> None:
    paths = [find_shipped() / each / FILE_NAME for each in ("kafka_transactions", "delivery")]
    tables = [table for path in paths for table in read_tables(path.read_text(encoding="utf-8"), str(path))]
    assert [(table.file, table.broker) for table in tables] == [
        ("transactions.py", "kafka"),
        ("init_pid.py", "kafka"),
        ("init_pid_faults.py", "kafka"),
        ("rabbitmq_clients.py", "rabbitmq"),
        ("nsq_channels.py", "nsq"),
        ("nsq_lookup.py", "nsq"),
    ]
    for table in tables:
        cases = [case.counterpart for cases in table.actions.values() for case in cases]
        for counterpart in cases:
            BROKERS[table.broker].check(one(counterpart))
        for name in table.observed.values():
            BROKERS[table.broker].check(Plan(()), name)
