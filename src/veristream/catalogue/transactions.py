"""Properties of transactions and of those who run them."""

from __future__ import annotations

from veristream.catalogue.entry import Entry, Evidence, Promise
from veristream.history.properties import Property

_BEFORE_AND_AFTER = (
    "transactions_before",
    "transactions_verified",
    "transactions",
    "transactions_any_epoch",
    "transactions_read_uncommitted",
)

_LATE_WRITES = (
    "late_write_old_client_v2_off",
    "late_write_old_client_v2_on",
    "late_write_new_client_v2_off",
    "late_write_same_epoch",
)

ABORTED = Entry(
    Property.ABORTED,
    "No reader receives a message of a transaction that was aborted, or that is not yet committed.",
    (
        Promise(
            "Kafka",
            "isolation.level=read_committed, and transactions as of KIP-890 (transaction.version=2, and a "
            "client that speaks it)",
        ),
    ),
    (Evidence("Kafka", "aborted_is_never_read", _BEFORE_AND_AFTER + _LATE_WRITES),),
    {
        "aborted read": "a message of an aborted transaction was received (Adya's G1a)",
        "precommitted read": "a message was received before its transaction was asked to commit",
    },
    (
        "the beginning and end of each transaction, with what the producer learnt of it",
        "comparable clocks, for messages that were read too early",
    ),
)

WHOLE = Entry(
    Property.WHOLE,
    "A reader sees a committed transaction whole or not at all; none depends on itself through others.",
    (
        Promise(
            "Kafka",
            "isolation.level=read_committed, and transactions as of KIP-890 (transaction.version=2, and a "
            "client that speaks it)",
        ),
    ),
    (
        Evidence("Kafka", "all_or_nothing", _BEFORE_AND_AFTER),
        Evidence(
            "Kafka", "committed_is_read(1, 0)", ("transactions_before_failover", "transactions_failover")
        ),
    ),
    {
        "torn transaction": "a reader received one message of a committed transaction and not another",
        "G1c": "transactions that depend on each other in a circle, by what they wrote and read",
    },
    (
        "transactions with what the producer learnt of them, and the offsets of their messages",
        "a read of each of their partitions to the end",
        "a complete recording",
    ),
)

FENCED = Entry(
    Property.FENCED,
    "A producer commits nothing after another one has taken over its transactional id.",
    (Promise("Kafka", "always: a newer epoch fences the older ones"),),
    (
        Evidence(
            "Kafka",
            "fenced_never_commits",
            ("transactions_before", "transactions_verified", "transactions", "transactions_failover"),
        ),
        Evidence("Kafka", "epoch_has_one_holder", ("transactions_before", "transactions")),
        Evidence("Kafka", "pair_held_once", ("init_pid",)),
    ),
    {"zombie commit": "a commit succeeded that began after a newer epoch had been given out"},
    ("two producers with one transactional id, and their epochs", "comparable clocks"),
)

HANGING = Entry(
    Property.HANGING,
    "No transaction stays open that its coordinator does not know, so readers of committed messages go on.",
    (
        Promise(
            "Kafka",
            "transaction.partition.verification.enable=true, or a client that speaks transaction.version=2",
        ),
    ),
    (
        Evidence(
            "Kafka",
            "no_hanging_transaction",
            (
                "transactions_before",
                "transactions_verified",
                "transactions",
                "transactions_unguarded",
                "late_write_old_client_v2_off",
                "late_write_old_client_v2_on",
                "late_write_new_client_v2_off",
            ),
        ),
        Evidence(
            "Kafka",
            "last_stable_offset_moves_on(0)",
            ("transactions_before", "transactions_verified", "transactions"),
        ),
    ),
    {"hanging transaction": "a reader stops before messages that are there, though no transaction is open"},
    (
        "transactions with what the producer learnt of them, and comparable clocks",
        "a read of each partition to its end after the last of them, and then how long the log is",
        "a complete recording of all producers",
    ),
)
