"""Properties of single messages: nothing is lost, doubled, reordered, invented or leaked."""

from __future__ import annotations

from veristream.catalogue.entry import Entry, Evidence, Promise
from veristream.history.properties import Property

_ALL_RECEIVED = "A[] cnt==0&&body>MESSAGES&&pmsg[0]==0&&pmsg[1]==0&&!BrokerC(2).GetMsg&&!BrokerC(3).GetMsg imply forall(m:int[1,MESSAGES]) exists(c:consumer) exists(k:id_m) cmsg[c][k]==m"  # noqa: E501
_ONE_CONSUMER_EACH = "A[] forall(i:id_m) forall(j:id_m) cmsg[2][i]!=0 imply cmsg[2][i]!=cmsg[3][j]"
_IN_ORDER = "A[] forall(c:consumer) forall(i:id_m) forall(j:id_m) cmsg[c][i]!=0&&cmsg[c][j]!=0&&i<j imply cmsg[c][i]<cmsg[c][j]"  # noqa: E501

DELIVERED = Entry(
    Property.DELIVERED,
    "A message whose send was acknowledged is delivered to whoever reads to the end.",
    (
        Promise("Kafka", "acks=all, min.insync.replicas of at least 2, no unclean leader election"),
        Promise(
            "RabbitMQ",
            "publisher confirms; persistent messages in a durable classic queue, or a quorum queue",
        ),
        Promise(
            "NSQ",
            "while nsqd is not killed; with --mem-queue-size=0 --sync-every=1, all but what is under way",
        ),
        Promise("Kabis", "every validated topic, while at most f of 3f + 1 parties lie"),
    ),
    (
        Evidence(
            "Kafka",
            "acknowledged_is_stored",
            (
                "kafka_acks_all",
                "kafka_acks_1",
                "kafka_acks_0",
                "kafka_one_in_sync",
                "kafka_unclean",
                "kafka_not_idempotent",
                "kafka_one_in_flight",
            ),
        ),
        Evidence("Kafka", "System() |= []AckedIsStored", ("kafka", "kafka_failover")),
        Evidence("Kafka", "SystemCrash() |= []AckedIsStored", ("kafka",)),
        Evidence(
            "RabbitMQ",
            "acknowledged_is_delivered",
            (
                "rabbitmq_persistent",
                "rabbitmq_transient",
                "rabbitmq_unconfirmed",
                "rabbitmq_mirrored",
                "rabbitmq_quorum",
                "rabbitmq_requeue",
                "rabbitmq_cut",
                "rabbitmq_cut_confirmed",
            ),
        ),
        Evidence("RabbitMQ", _ALL_RECEIVED, ("rabbitmq_queue", "rabbitmq_queue_repaired")),
        Evidence(
            "NSQ",
            "acknowledged_is_delivered",
            (
                "nsq_memory",
                "nsq_disk",
                "nsq_synced",
                "nsq_wire",
                "nsq_timeout",
                "nsq_stopped",
                "nsq_overflow",
            ),
        ),
        Evidence("NSQ", "channel_gets_everything", ("nsq_late_channel", "nsq_early_channels")),
        Evidence("NSQ", "System() |= <> Reachability", ("nsq_existing_channels", "nsq_all_channels")),
        Evidence(
            "Kabis",
            "acknowledged_is_stored",
            ("kabis_storage", "kabis_storage_paper", "kabis_storage_phantom", "kabis_storage_all_receipts"),
        ),
        Evidence("Kabis", "acknowledged_is_delivered(0)", ("kabis_storage", "kabis_storage_paper")),
    ),
    {"lost write": "an acknowledged message is missing from what was read to the end"},
    (
        "the acknowledgement of each send, and in a log its offset",
        "a read of each partition to its end after the last send (READ_TO_END), or a drained queue",
        "a complete recording",
    ),
)

PROCESSED = Entry(
    Property.PROCESSED,
    "When a group commits an offset, its members have processed every message below it.",
    (
        Promise("Kafka", "enable.auto.commit=false and commits only after processing"),
        Promise("Kabis", "commits after processing"),
    ),
    (
        Evidence(
            "Kafka",
            "committed_is_processed",
            (
                "kafka_auto_commit",
                "kafka_auto_commit_no_pause",
                "kafka_manual_commit",
                "kafka_no_pause",
                "kafka_unfenced",
            ),
        ),
    ),
    {"unprocessed": "a commit covers a message that no member of the group said it had processed"},
    (
        "the application's word that it has processed a message (ACKNOWLEDGE)",
        "commits, and where each member starts (ASSIGN with an offset)",
        "a complete recording",
    ),
)

ONCE = Entry(
    Property.ONCE,
    "No message is stored twice in a log, or delivered twice to a subscription of a queue.",
    (
        Promise("Kafka", "enable.idempotence=true; transactions"),
        Promise("RabbitMQ", "never: redelivery is how it keeps its other promise"),
        Promise("NSQ", "never: at least once"),
        Promise("Kabis", "every validated topic: producers sign sequence numbers"),
    ),
    (
        Evidence(
            "Kafka",
            "stored_once",
            (
                "kafka_acks_all",
                "kafka_one_in_sync",
                "kafka_unclean",
                "kafka_not_idempotent",
                "kafka_one_in_flight",
            ),
        ),
        Evidence("Kafka", "System_FakingP() reaches Stored_Twice", ("kafka_secured",), bad=True),
        Evidence("Kafka", "System_P() reaches Stored_Twice", ("kafka_secured_unnumbered",), bad=True),
        Evidence(
            "RabbitMQ",
            "delivered_once",
            (
                "rabbitmq_persistent",
                "rabbitmq_transient",
                "rabbitmq_mirrored",
                "rabbitmq_quorum",
                "rabbitmq_requeue",
            ),
        ),
        Evidence(
            "RabbitMQ",
            _ONE_CONSUMER_EACH,
            ("rabbitmq_queue", "rabbitmq_queue_repaired", "rabbitmq_confirms"),
        ),
        Evidence(
            "NSQ",
            "delivered_once",
            ("nsq_memory", "nsq_disk", "nsq_synced", "nsq_timeout", "nsq_stopped", "nsq_overflow"),
        ),
        Evidence("NSQ", "System() |= [] !duplicate", ("nsq",)),
        Evidence("NSQ", "System() |= [] OncePerChannel", ("nsq_shared_channel",)),
        Evidence(
            "Kabis",
            "delivered_once_and_in_order",
            ("kabis_validate", "kabis_validate_replay", "kabis_validate_meant_replay"),
        ),
        Evidence(
            "Kabis",
            "no_replay",
            ("kabis_identifiers", "kabis_identifiers_paper", "kabis_identifiers_unsequenced"),
        ),
    ),
    {"duplicate": "one message has two offsets in a log, or a subscription of a queue received it twice"},
    ("an identifier in each message, which the recorders add", "a reader of the messages"),
)

ORDER = Entry(
    Property.ORDER,
    "Messages of a producer in a partition are stored and received in the order of sending, without gaps.",
    (
        Promise("Kafka", "idempotent producers, or one request in flight"),
        Promise("RabbitMQ", "per queue and publisher, for first deliveries"),
        Promise("NSQ", "never"),
        Promise("Kabis", "every validated topic; basic ones while the first replica is honest"),
    ),
    (
        Evidence(
            "Kafka",
            "stored_in_order",
            ("kafka_acks_all", "kafka_one_in_sync", "kafka_not_idempotent", "kafka_one_in_flight"),
        ),
        Evidence("Kafka", "System() |= []Ordered", ("kafka", "kafka_newest", "kafka_failover")),
        Evidence("Kafka", "System() |= []Sequentiality", ("kafka",)),
        Evidence(
            "RabbitMQ",
            "delivered_in_order",
            (
                "rabbitmq_persistent",
                "rabbitmq_mirrored",
                "rabbitmq_quorum",
                "rabbitmq_requeue",
                "rabbitmq_requeue_prefetch",
                "rabbitmq_requeue_consumers",
            ),
        ),
        Evidence(
            "RabbitMQ",
            _IN_ORDER,
            ("rabbitmq_queue_one_producer", "rabbitmq_queue_repaired"),
        ),
        Evidence(
            "NSQ",
            "delivered_in_order",
            ("nsq_memory", "nsq_disk", "nsq_synced", "nsq_timeout", "nsq_stopped"),
        ),
        Evidence("NSQ", "System() reaches Reordered", ("nsq",), bad=True),
        Evidence(
            "Kabis", "validating_first_in_first_out", ("kabis_guarantees", "kabis_guarantees_byzantine")
        ),
        Evidence("Kabis", "plain_first_in_first_out", ("kabis_guarantees", "kabis_guarantees_byzantine")),
        Evidence("Kabis", "first_in_first_out", ("kabis_identifiers", "kabis_identifiers_paper")),
    ),
    {
        "nonmonotonic send": "a message has a lower offset than an earlier one of its producer",
        "int-nonmonotonic send": "the same within one call",
        "nonmonotonic poll": "a reader's offsets, or a producer's numbers in a queue, went back",
        "int-nonmonotonic poll": "the same within one call",
        "skipped poll": "a reader went past an effective message, with no rebalance or seek between",
        "int-skipped poll": "the same within one call",
    },
    (
        "offsets in a log; producers and numbers in a queue",
        "assignments, revocations and seeks, since a skip is legal across them",
        "the number of deliveries (attempt) in a queue, since redeliveries do not count",
    ),
)

ONE_OFFSET = Entry(
    Property.ONE_OFFSET,
    "Everybody who learns what is at an offset of a partition learns of the same message.",
    (
        Promise("Kafka", "acks=all and no unclean leader election; readers below the high watermark"),
        Promise("Kabis", "every validated topic"),
    ),
    (
        Evidence("Kafka", "System() |= []OnlyCommittedIsRead", ("kafka", "kafka_failover")),
        Evidence("Kabis", "validating_total_order", ("kabis_guarantees", "kabis_guarantees_byzantine")),
        Evidence("Kabis", "plain_total_order", ("kabis_guarantees", "kabis_guarantees_byzantine")),
        Evidence("Kabis", "consumers_agree", ("kabis_storage", "kabis_storage_alone")),
    ),
    {"inconsistent offset": "two messages were seen at one offset"},
    ("offsets of acknowledgements or of receipts",),
)

NOTHING_NEW = Entry(
    Property.NOTHING_NEW,
    "Whatever is received was sent to that partition, and with the same bytes.",
    (
        Promise("Kafka", "without an intruder; with authentication, as long as tickets are not replayed"),
        Promise("RabbitMQ", "without an intruder"),
        Promise("NSQ", "without an intruder"),
        Promise("Kabis", "every validated topic, with a proof for third parties"),
    ),
    (
        Evidence("Kafka", "System() |= []IntegrityC", ("kafka_intruder",)),
        Evidence("Kafka", "System_FakingP() |= []IntegrityC", ("kafka_intruder",)),
        Evidence(
            "Kafka",
            "System_FakingP() reaches Producer_Faking_Success",
            ("kafka_intruder", "kafka_kerberos", "kafka_kerberos_replay", "kafka_secured"),
            bad=True,
        ),
        Evidence(
            "Kafka",
            "System_FakingP() reaches Deceived",
            ("kafka_secured", "kafka_secured_stolen_sign"),
            bad=True,
        ),
        Evidence("NSQ", "System() |= [] AckedFirst", ("nsq",)),
        Evidence(
            "Kabis",
            "no_forgery",
            (
                "kabis_identifiers",
                "kabis_identifiers_prototype",
                "kabis_identifiers_one_key",
                "kabis_storage",
                "kabis_storage_unchecked",
            ),
        ),
        Evidence("Kabis", "no_splicing", ("kabis_identifiers", "kabis_identifiers_untitled")),
        Evidence("Kabis", "plain_no_forgery", ("kabis_guarantees_byzantine",)),
    ),
    {
        "unexpected": "a message was received that nobody had sent there, or whose send certainly failed",
        "altered": "the bytes received are not those of any send of the message",
    },
    (
        "every producer (otherwise only altered bytes can be found)",
        "digests of the bytes on both sides, for altered bytes",
    ),
)

READERS = Entry(
    Property.READERS,
    "Only processes that are allowed to read a stream receive its messages.",
    (
        Promise("Kafka", "authentication, access control and encryption together"),
        Promise("RabbitMQ", "Kerberos with a cache of authenticators"),
        Promise("Kabis", "topics with grants, at storage parties that follow the ledger"),
    ),
    (
        Evidence(
            "Kafka",
            "System_FakingC() reaches Consumer_Faking_Success",
            ("kafka_intruder", "kafka_kerberos", "kafka_kerberos_replay", "kafka_secured"),
            bad=True,
        ),
        Evidence(
            "Kafka",
            "System_FakingC() reaches DataC_Leaking_Success",
            ("kafka_intruder", "kafka_kerberos", "kafka_secured", "kafka_secured_stolen_seal"),
            bad=True,
        ),
        Evidence(
            "RabbitMQ", "E<> Intruder.In", ("tickets", "tickets_cache", "tickets_kept_back"), bad=True
        ),
        Evidence("Kabis", "reads_with_a_grant", ("kabis_access", "kabis_access_lagging_party")),
    ),
    {"leaked": "a process received from a stream that it may not read"},
    ("who may read each stream (`readers` in the manifest)",),
)
