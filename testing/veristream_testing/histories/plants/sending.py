"""Messages that plants send, and that the broker then treats as the plant says."""

from __future__ import annotations

from typing import Any

from veristream.history.events import Event, Operation
from veristream_testing.histories.broker import Record, World


def begin_send(
    world: World, producer: int, stream: int, partition: int, call: int | None = None, **fields: Any
) -> Event:
    """Begins to send the next message of a producer."""
    return world.recorder.begin(
        producer,
        Operation.SEND,
        with_call=call,
        stream=stream,
        partition=partition,
        producer=producer,
        number=world.number(producer),
        **{"digest": world.digest()} | fields,
    )


def record_of(sent: Event, **fields: Any) -> Record:
    """Returns what the broker stores of a message."""
    return Record(sent.producer, sent.number, **{"digest": sent.digest} | fields)


def send(world: World, producer: int, stream: int, partition: int, **fields: Any) -> tuple[int, Record]:
    """Sends a message to a log, which stores it; returns it with its offset."""
    sent = begin_send(world, producer, stream, partition, **fields)
    record = record_of(sent)
    offset = world.log(stream, partition).append(record)
    world.recorder.end(sent, offset=offset)
    return offset, record
