"""Properties that models decide and histories cannot, with the reason."""

from __future__ import annotations

from veristream.catalogue.entry import Entry, Evidence, Promise

_FINISHED = " && ".join(
    ["System() |= [] (Acked0 -> <> Finished0)", *(f"[] (Acked{n} -> <> Finished{n})" for n in (1, 2))]
)
_ORPHANED = "E<> orphan!=0 && !handled[orphan] && forall(i:id_q) Queue.list[i]!=orphan"

HANDLED = Entry(
    "acknowledged means processed",
    "A message whose send was acknowledged is not only delivered: some consumer finishes it.",
    (
        Promise("RabbitMQ", "manual acknowledgements by the consumer"),
        Promise("NSQ", "while nsqd is not killed, and no message is given up after max_attempts"),
    ),
    (
        Evidence("RabbitMQ", _ORPHANED, ("rabbitmq_two_consumers", "rabbitmq_confirms"), bad=True),
        Evidence(
            "NSQ",
            "acknowledged_is_processed",
            ("nsq_memory", "nsq_disk", "nsq_synced", "nsq_timeout", "nsq_stopped"),
        ),
        Evidence(
            "NSQ",
            _FINISHED,
            ("nsq",),
        ),
        Evidence("NSQ", "System() |= [] !giveUp", ("nsq",)),
    ),
    instead="a consumer may still be at work when a recording ends; see `acknowledged means delivered`",
)

PROGRESS = Entry(
    "everything goes on",
    "Nobody waits forever: what was sent is eventually answered, and eventually received.",
    (
        Promise("Kafka", "while a leader can be elected, and clients stop waiting for a dead one"),
        Promise("NSQ", "once producers and consumers have found each other"),
        Promise("Kabis", "while at most f of 3f + 1 parties lie or are down"),
    ),
    (
        Evidence("Kafka", "System() deadlockfree", ("kafka", "kafka_failover")),
        Evidence("Kafka", "SystemCrash() deadlockfree", ("kafka",)),
        Evidence("Kafka", "System() |= <>AllConsumed", ("kafka", "kafka_failover")),
        Evidence("NSQ", "System() |= <> Reachability", ("nsq", "nsq_asked_once", "nsq_asked_again")),
        Evidence("NSQ", "SystemRest() deadlockfree", ("nsq",)),
        Evidence("Kabis", "nobody_blocks(0)", ("kabis_storage", "kabis_storage_asks_all")),
        Evidence("Kabis", "push_is_answered(0, 0)", ("kabis_storage", "kabis_storage_all_receipts")),
    ),
    instead="a history ends, so it never shows that something would not have happened later",
)

AGREED = Entry(
    "validators agree",
    "No two honest validators decide different blocks at one height.",
    (Promise("Kabis", "while at most f of 3f + 1 validators lie"),),
    (
        Evidence(
            "Kabis",
            "agreement",
            ("kabis_tendermint", "kabis_tendermint_unlocked", "kabis_tendermint_too_many_faulty"),
        ),
        Evidence("Kabis", "votes_once", ("kabis_durability", "kabis_durability_sent_first")),
        Evidence("Kabis", "clients_agree", ("kabis_reconfiguration", "kabis_reconfiguration_no_expiry")),
    ),
    instead="`veristream kabis audit` checks every block and certificate of a chain",
)

TICKETS = Entry(
    "an expired ticket is refused",
    "No broker serves a client whose Kerberos ticket has expired.",
    (
        Promise("Kafka", "a server that compares the ticket's lifetime with its clock"),
        Promise("RabbitMQ", "the same"),
    ),
    (
        Evidence(
            "Kafka",
            "System_FakingP() reaches Expired_Ticket_Accepted",
            ("kafka_kerberos", "kafka_kerberos_recovers", "kafka_secured"),
            bad=True,
        ),
        Evidence(
            "RabbitMQ",
            "E<> Server.InitBP && issued>LIFETIME",
            ("tickets", "tickets_checked", "tickets_kept_back_fresh"),
            bad=True,
        ),
    ),
    instead="tickets are not part of what a recorder sees; `only who may reads` shows the damage",
)

HEARTBEATS = Entry(
    "a silent client is dropped",
    "A broker closes the connection of a client that sends no heartbeats, within the time agreed.",
    (Promise("RabbitMQ", "heartbeats that both sides watch"),),
    (
        Evidence(
            "RabbitMQ",
            "A[] Producer(0).Dead && t>TIMEOUT imply BrokerP(0).Close",
            ("rabbitmq_dead_producer", "rabbitmq_dead_producer_repaired"),
        ),
    ),
    instead="a client that is dead records nothing; the broker's log has its connections",
)
