"""Properties of consumer groups, and of consumers that take messages from queues."""

from __future__ import annotations

from veristream.catalogue.entry import Entry, Evidence, Promise
from veristream.history.properties import Property

EXCLUSIVE = Entry(
    Property.EXCLUSIVE,
    "At any time, at most one member of a group holds a partition.",
    (
        Promise(
            "Kafka", "members that never pause longer than their session; commits are fenced in any case"
        ),
        Promise("Kabis", "the ledger assigns, so it holds within a generation"),
    ),
    (
        Evidence(
            "Kafka",
            "one_member_holds",
            ("kafka_auto_commit", "kafka_auto_commit_no_pause", "kafka_manual_commit", "kafka_no_pause"),
        ),
        Evidence("Kafka", "System() |= []NoForeignData", ("kafka", "kafka_failover")),
        Evidence("Kabis", "one_owner_a_generation", ("kabis_groups", "kabis_groups_coordinator")),
    ),
    {"overlapping assignment": "a member got a partition while another one still held it"},
    ("assignments and revocations of at least two members", "comparable clocks"),
)

FORWARD = Entry(
    Property.FORWARD,
    "Commits of a group only move forward, and members start where the group has committed.",
    (
        Promise("Kafka", "groups, which fence commits by generation"),
        Promise("Kabis", "groups, whose commits are on the ledger"),
    ),
    (
        Evidence(
            "Kafka",
            "commits_never_move_back",
            (
                "kafka_auto_commit",
                "kafka_auto_commit_no_pause",
                "kafka_manual_commit",
                "kafka_no_pause",
                "kafka_unfenced",
            ),
        ),
        Evidence(
            "Kabis",
            "commits_never_fall",
            ("kabis_groups", "kabis_groups_by_owner", "kabis_groups_unfenced"),
        ),
        Evidence("Kabis", "begins_at_the_commit", ("kabis_groups", "kabis_groups_from_the_beginning")),
        Evidence(
            "Kabis",
            "committed_is_not_delivered_again",
            ("kabis_groups", "kabis_groups_from_the_beginning"),
        ),
    ),
    {
        "lost commit": "a member started below what the group had committed",
        "backward commit": "a commit succeeded below an earlier one",
    },
    ("two commits, or a commit and a later assignment with its offset",),
)

BOUNDED = Entry(
    Property.BOUNDED,
    "A consumer never holds more messages than it allows, and no message is tried too often.",
    (
        Promise("RabbitMQ", "the prefetch count, with acknowledgements"),
        Promise("NSQ", "RDY, and max_attempts of the client"),
    ),
    (
        Evidence(
            "RabbitMQ",
            "in_flight_is_bounded",
            ("rabbitmq_persistent", "rabbitmq_mirrored", "rabbitmq_quorum", "rabbitmq_requeue"),
        ),
        Evidence(
            "NSQ",
            "in_flight_is_bounded",
            ("nsq_memory", "nsq_disk", "nsq_wire", "nsq_timeout", "nsq_stopped", "nsq_overflow"),
        ),
        Evidence("NSQ", "System() |= [] FlowControl", ("nsq", "nsq_asked_again", "nsq_shared_channel")),
        Evidence("NSQ", "System() |= [] RdyInRange", ("nsq", "nsq_shared_channel")),
    ),
    {
        "overrun": "a consumer held more messages than it had allowed",
        "too many attempts": "a message was delivered more often than its stream permits",
    },
    (
        "what each consumer allows (READY), and its acknowledgements and rejections",
        "`attempts_max` of the stream in the manifest, for attempts",
    ),
)

FINAL = Entry(
    Property.FINAL,
    "A message that a subscription has acknowledged is never delivered to it again.",
    (
        Promise(
            "RabbitMQ", "while no node is killed; a quorum queue redelivers what it had not yet agreed on"
        ),
        Promise("NSQ", "while nsqd is not killed; a FIN that is too late fails"),
    ),
    (
        Evidence(
            "RabbitMQ",
            "acknowledged_is_never_delivered_again",
            (
                "rabbitmq_persistent",
                "rabbitmq_transient",
                "rabbitmq_mirrored",
                "rabbitmq_quorum",
                "rabbitmq_requeue",
            ),
        ),
        Evidence(
            "NSQ",
            "acknowledged_is_never_delivered_again",
            ("nsq_memory", "nsq_disk", "nsq_synced", "nsq_timeout", "nsq_stopped"),
        ),
    ),
    {"zombie delivery": "a message was delivered to a subscription that had acknowledged it"},
    ("acknowledgements with what the consumer learnt of them", "comparable clocks between consumers"),
)
