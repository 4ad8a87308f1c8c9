"""Hands the events of a parcel to Kafka's client, many with one call, which costs less."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from veristream.kabis.client.kafka.parcels import TOGETHER, Content, PlainParcel


def hand_over(producer: Producer, parcel: PlainParcel, end: int) -> None:
    """Hands the client the events of a parcel up to a position.

    Raises BufferError if it has no room for all, and KafkaException if it has failed. The events before the
    first one that it refused are handed over all the same.
    """
    together_end = end if parcel.whole is None else min(end, len(parcel.contents) - 1)
    if parcel.sent < together_end:
        _hand_over_together(producer, parcel, together_end)
    if parcel.sent < end:
        _hand_over_one(producer, parcel)
    if parcel.whole is None:
        parcel.full = parcel.sent + TOGETHER


def hand_over_last(producer: Producer, parcel: PlainParcel) -> None:
    """Ends a parcel: hands the client its remaining events, the last one with a delivery report."""
    hand_over(producer, parcel, len(parcel.contents) - 1)
    parcel.ended = True  # before Kafka can report on it
    try:
        _hand_over_one(producer, parcel, last=True)
    except BufferError:
        parcel.ended = False
        raise


def _hand_over_one(producer: Producer, parcel: PlainParcel, *, last: bool = False) -> None:
    """Hands over the next event by itself, with headers and timestamp."""
    key, value = _split(parcel.contents[parcel.sent])
    more: dict[str, Any] = {}
    if parcel.whole is not None:
        if parcel.whole.headers:
            more["headers"] = list(parcel.whole.headers)
        if parcel.whole.timestamp_ms is not None:
            more["timestamp"] = parcel.whole.timestamp_ms
    if last or parcel.asks:
        more["on_delivery"] = parcel.report
    producer.produce(parcel.topic, value, key, parcel.partition, **more)
    parcel.sent, parcel.whole, parcel.asks = parcel.sent + 1, None, parcel.each


def _hand_over_together(producer: Producer, parcel: PlainParcel, end: int) -> None:
    messages: list[dict[str, Any]] = [
        {"key": content[0], "value": content[1]} if isinstance(content, tuple) else {"value": content}
        for content in parcel.contents[parcel.sent : end]
    ]
    if parcel.asks:
        for message in messages if parcel.each else messages[:1]:
            message["callback"] = parcel.report
    # The client takes none after one that it has no room for, and sizes were checked before. So it took
    # the first ones.
    taken = producer.produce_batch(parcel.topic, messages, parcel.partition)
    parcel.sent += taken
    if taken:
        parcel.asks = parcel.each
    if taken < len(messages):
        error = messages[taken]["_error"]
        raise BufferError(error.str()) if error.code() == KafkaError._QUEUE_FULL else KafkaException(error)


def _split(content: Content) -> tuple[bytes | None, bytes | None]:
    return content if isinstance(content, tuple) else (None, content)
