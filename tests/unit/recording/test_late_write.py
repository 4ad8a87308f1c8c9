"""The experiment with late writes, without a broker: its cells, and what the proxy does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.brokers.test_produce import answer, request
from veristream.brokers.proxy.header import Header
from veristream.brokers.proxy.pieces import DROP, PASS, Hold, Piece, Request
from veristream.errors import ModelError
from veristream.recording.kafka.late_write.cell import Cell
from veristream.recording.kafka.late_write.steering import HoldWrite
from veristream.recording.kafka.settings import Settings


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ({"client": "kcat"}, "no client is called kcat"),
        ({"transaction_version": 3}, "no transaction.version is 3"),
        ({"broker": "2.8.0"}, "no Kafka 2.8.0 is pinned"),
        ({"client_version": "0.11"}, "no Kafka 0.11 is pinned"),
        ({"client": "librdkafka", "in_callback": True}, "librdkafka runs callbacks when it polls"),
        ({"broker": "3.9.1", "transaction_version": 1}, "Kafka 3.9.1 has only transaction.version 0"),
        ({"broker": "3.5.2"}, "Kafka 3.5.2 does not verify partitions"),
    ],
)
def test_a_cell_that_cannot_be(cell: dict[str, Any], said: str) -> None:
    whole: dict[str, Any] = {"client": "java", "transaction_version": 0, "verification": True, **cell}
    with pytest.raises(ModelError) as wrong:
        Cell(**whole).check()
    assert wrong.value.message == said


def test_a_broker_is_told_what_it_knows() -> None:
    verified = {"transaction.partition.verification.enable": "true"}
    new = Cell("java", 1, verification=True).broker_settings
    assert new == Settings(broker=verified, feature={"transaction.version": "1"})
    assert Cell("java", 0, True, "3.9.1").broker_settings == Settings(broker=verified)
    assert Cell("java", 0, False, "3.5.2").broker_settings == Settings()


def test_a_cell_has_a_name() -> None:
    assert Cell("java", 2, True, "3.9.1", written_before=True, in_next=True, in_callback=True).name == (
        "java 4.1.1, Kafka 3.9.1, transaction.version 2, verified, written before, "
        "aborted in the callback, in the next transaction"
    )
    assert Cell("librdkafka", 0, False).name == (
        "librdkafka, Kafka 4.1.1, transaction.version 0, not verified, between transactions"
    )


def passing(
    data: bytes, correlation: int, direction: Any = "to broker", client: str = "me", version: int = 9
) -> Piece:
    return Piece("b", 3, direction, 0, data, Request(0, version, correlation, client))


def who(written: Header | None) -> tuple[int, str | None, int | None, int | None]:
    """Returns the version of Produce, and who wrote."""
    assert written is not None
    (found,) = written.transactions
    return written.request.version, found.transactional_id, found.producer_id, found.epoch


WRITTEN = (9, "tx-1", 4_000_000_007, 3)


def test_the_first_write_of_the_client_is_late() -> None:
    hold = HoldWrite("me")
    assert hold(Piece("b", 3, "to broker", 0, b"?")) is PASS
    assert hold(passing(request(9), 1, client="other")) is PASS
    late = hold(passing(request(9), 2))
    assert isinstance(late, Hold)
    assert who(hold.late) == WRITTEN
    assert hold(passing(request(9), 3)) is DROP  # it is tried again
    assert hold(passing(answer(9, 35, 1), 1, "to client")) is PASS
    assert hold.wait_answered(0) is None
    assert hold(passing(answer(9, 47, -1), 2, "to client")) is PASS
    said = hold.wait_answered(0)
    assert said is not None and (said.errors, said.offset) == ((47,), -1)
    assert hold.later == []


def test_the_next_transaction_waits_for_the_late_write() -> None:
    hold = HoldWrite("me")
    late = hold(passing(request(9), 2))
    added = Piece("b", 4, "to client", 0, b"", Request(24, 0, 9, "me"))
    assert hold(added) is PASS
    assert not hold.wait_next(0)  # that was the first transaction
    hold.expect_next()
    assert hold(added) is PASS
    assert hold.wait_next(0)
    following = hold(passing(request(9), 4))
    assert isinstance(late, Hold) and isinstance(following, Hold)
    assert late.gate is not following.gate
    assert [who(one) for one in hold.later] == [WRITTEN]


def test_a_write_that_adds_its_partition_is_the_next_transaction() -> None:
    hold = HoldWrite("me")
    hold(passing(request(13), 2, version=13))
    hold.expect_next()
    assert not hold.wait_next(0)
    hold(passing(request(13), 3, version=13))
    assert hold.wait_next(0)
