"""Trials of RabbitMQ: confirms, durability, mirrors and quorums, redelivery and prefetch."""

from __future__ import annotations

from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.trials.trial import Difference, Pair, Trial

DELIVERED, ONCE, ORDER = Property.DELIVERED, Property.ONCE, Property.ORDER
BOUNDED, FINAL = Property.BOUNDED, Property.FINAL


def _queue(model: str, *properties: Property) -> tuple[Pair, ...]:
    names = {
        DELIVERED: "acknowledged_is_delivered",
        ONCE: "delivered_once",
        ORDER: "delivered_in_order",
        BOUNDED: "in_flight_is_bounded",
        FINAL: "acknowledged_is_never_delivered_again",
    }
    return tuple(Pair(one, model, names[one]) for one in properties)


_NOBODY_CONSUMED = Difference(
    Word.HELD,
    "the model also kills the node while a consumer works, as the trial forgotten does; in this one the "
    "consumer comes later",
)
_DRAINED = "a publisher; after the restart, a consumer drains the queue"
_CLASSIC = {"x-queue-type": "classic", "durable": "true"}

TRIALS = (
    Trial(
        "rabbitmq",
        "persistent",
        "The node of a durable classic queue is killed; confirmed persistent messages are on its disk.",
        {**_CLASSIC, "delivery_mode": "2", "confirms": "on"},
        _DRAINED,
        "SIGKILL of the queue's node, restart",
        _queue("rabbitmq_persistent", DELIVERED, ONCE),
        {ONCE: _NOBODY_CONSUMED},
    ),
    Trial(
        "rabbitmq",
        "transient",
        "The node is killed; it had confirmed transient messages that it kept in memory only.",
        {**_CLASSIC, "delivery_mode": "1", "confirms": "on"},
        _DRAINED,
        "SIGKILL of the queue's node, restart",
        _queue("rabbitmq_transient", DELIVERED),
    ),
    Trial(
        "rabbitmq",
        "unconfirmed",
        "The node is killed when a publisher that asks for no confirms has just sent.",
        {**_CLASSIC, "delivery_mode": "2", "confirms": "off"},
        "a publisher that takes what it has written for sent; after the restart, a consumer drains",
        "SIGKILL of the queue's node at once, restart",
        _queue("rabbitmq_unconfirmed", DELIVERED),
        {
            DELIVERED: Difference(
                Word.HELD, "the node had written everything when it was killed, though nobody was told so"
            )
        },
    ),
    Trial(
        "rabbitmq",
        "forgotten",
        "The node is killed before it has written the acknowledgements of a consumer: all comes again.",
        {**_CLASSIC, "delivery_mode": "2", "confirms": "on"},
        "a publisher, and a consumer that acknowledges all; after the restart, another one drains",
        "SIGKILL of the queue's node, restart",
        _queue("rabbitmq_persistent", DELIVERED, ONCE, FINAL),
        {
            one: Difference(Word.HELD, "the node had written the acknowledgements when it was killed")
            for one in (ONCE, FINAL)
        },
    ),
    Trial(
        "rabbitmq",
        "mirrored",
        "Mirrors return empty, are not synchronised, and one takes over when the leader is killed.",
        {"ha-mode": "all", "ha-sync-mode": "manual", "ha-promote-on-failure": "always", "confirms": "on"},
        "a publisher before and after the mirrors' restart; then a consumer drains the queue",
        "SIGKILL and restart of both mirrors, then SIGKILL of the leader",
        _queue("rabbitmq_mirrored", DELIVERED),
    ),
    Trial(
        "rabbitmq",
        "quorum",
        "The leader of a quorum queue on three nodes is killed; a majority has every confirmed message.",
        {"x-queue-type": "quorum", "confirms": "on"},
        "two publishers and two consumers for 5 s; then another one drains the queue",
        "SIGKILL of the leader's node, restart",
        _queue("rabbitmq_quorum", DELIVERED, ORDER, BOUNDED),
    ),
    Trial(
        "rabbitmq",
        "requeue",
        "A consumer gives every second message back, and it comes again.",
        {**_CLASSIC, "delivery_mode": "2", "confirms": "on"},
        "a publisher, and a consumer that acknowledges or rejects; then another one drains the queue",
        "",
        _queue("rabbitmq_requeue", DELIVERED, ONCE, ORDER, FINAL),
    ),
    Trial(
        "rabbitmq",
        "cut",
        "A consumer loses its connection with acknowledgements under way: those messages come again.",
        {**_CLASSIC, "delivery_mode": "2", "confirms": "on"},
        "a publisher, and a consumer half of whose acknowledgements arrive; then another one drains",
        "a proxy drops what the consumer says, and cuts its connection",
        _queue("rabbitmq_requeue", DELIVERED, ONCE, ORDER, FINAL),
    ),
    Trial(
        "rabbitmq",
        "prefetch",
        "A consumer answers only when nothing more comes: it never holds more than its prefetch count.",
        {**_CLASSIC, "prefetch_count": "5"},
        "a publisher and a consumer",
        "",
        _queue("rabbitmq_requeue", DELIVERED, BOUNDED),
    ),
)
