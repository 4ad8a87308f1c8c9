"""Trials of Kafka: acknowledgements, elections, retries, transactions, groups."""

from __future__ import annotations

from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.trials.trial import Difference, Pair, Trial

DELIVERED, ONCE, ORDER = Property.DELIVERED, Property.ONCE, Property.ORDER


def _log(model: str, *properties: Property) -> tuple[Pair, ...]:
    """Pairs of one partition's log."""
    names = {DELIVERED: "acknowledged_is_stored", ONCE: "stored_once", ORDER: "stored_in_order"}
    return tuple(Pair(one, model, names[one]) for one in properties)


def _group(model: str) -> tuple[Pair, ...]:
    return (
        Pair(Property.PROCESSED, model, "committed_is_processed"),
        Pair(Property.FORWARD, model, "commits_never_move_back"),
        Pair(Property.EXCLUSIVE, model, "one_member_holds"),
    )


def _transactions(model: str) -> tuple[Pair, ...]:
    return (
        Pair(Property.ABORTED, model, "aborted_is_never_read"),
        Pair(Property.WHOLE, model, "all_or_nothing"),
    )


_NO_ANSWER_LOST = Difference(
    Word.HELD,
    "the model also loses answers, after which the producer sends again; this trial loses none",
)
_ALL_IN_ORDER = Difference(
    Word.HELD,
    "all that was sent again had been stored, and was sent again in its order; in the model's run the "
    "broker never gets a request, as in the trial reordering",
)
_STORED_ONCE = Difference(
    Word.HELD,
    "what was sent again had not been stored; the model also loses the answer of a request that was, as in "
    "the trial retries",
)
_LATE_WRITE = Difference(
    Word.HELD,
    "the model's run needs a write that is late by a whole transaction and joins the next one, as KIP-890 "
    "describes for clients of the older protocol, which librdkafka speaks; this trial delays none, as the "
    "trial late-write does",
)

_KILLED = "SIGSTOP of both followers, SIGKILL of the leader, SIGCONT: one of them leads"
_ALONE = "SIGSTOP of both followers until they are out of sync, SIGKILL of the leader, SIGCONT, restart"
_CUT = "a proxy passes a produce request on, and cuts the connection instead of the answer"
_LOST = "a proxy loses the first of several produce requests under way"
_LOG = "one producer, one partition with three replicas; in the end, a read of the whole log"
_SINGLE = "one producer, one message a request, one partition; in the end, a read of the whole log"
_TRANSACTIONS = (
    "a producer that commits and aborts on two partitions, one reader meanwhile and one in the end"
)
_TWO_TRANSACTIONS = (
    "a producer that aborts one transaction and commits the next; a reader of committed messages"
)
_HELD_BACK = "a proxy holds a produce request back until its transaction is aborted"
_TAKEN_OVER = "a member that received all and processed a part, and another one that takes over"

TRIALS = (
    Trial(
        "kafka",
        "acks-all",
        "The leader is killed while its followers stand still; what only it has was not acknowledged.",
        {"acks": "all", "min.insync.replicas": "2", "enable.idempotence": "true"},
        _LOG,
        _KILLED,
        _log("kafka_acks_all", DELIVERED, ONCE, ORDER),
    ),
    Trial(
        "kafka",
        "acks-1",
        "The leader is killed while its followers stand still; it has acknowledged what only it has.",
        {"acks": "1", "min.insync.replicas": "2", "enable.idempotence": "false"},
        _LOG,
        _KILLED,
        _log("kafka_acks_1", DELIVERED),
    ),
    Trial(
        "kafka",
        "acks-0",
        "The same with a producer that takes for acknowledged what it has sent.",
        {"acks": "0", "min.insync.replicas": "2", "enable.idempotence": "false"},
        _LOG,
        _KILLED,
        _log("kafka_acks_0", DELIVERED),
    ),
    Trial(
        "kafka",
        "one-in-sync",
        "The only replica in sync is killed; nobody else may lead, and it returns with all that it had.",
        {"acks": "all", "min.insync.replicas": "1", "unclean.leader.election.enable": "false"},
        _LOG,
        _ALONE,
        _log("kafka_one_in_sync", DELIVERED, ONCE, ORDER),
    ),
    Trial(
        "kafka",
        "unclean",
        "The only replica in sync is killed, and one that is not in sync takes its place.",
        {"acks": "all", "min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
        _LOG,
        _ALONE,
        _log("kafka_unclean", DELIVERED, ONCE),
    ),
    Trial(
        "kafka",
        "retries",
        "A producer that is not idempotent sends again what is stored, since it did not get the answer.",
        {"acks": "all", "enable.idempotence": "false", "max.in.flight": "5 and more"},
        _SINGLE,
        _CUT,
        _log("kafka_not_idempotent", DELIVERED, ONCE, ORDER),
        {ORDER: _ALL_IN_ORDER},
    ),
    Trial(
        "kafka",
        "reordering",
        "A producer that is not idempotent sends again what was lost, after later records were stored.",
        {"acks": "all", "enable.idempotence": "false", "max.in.flight": "5 and more"},
        _SINGLE,
        _LOST,
        _log("kafka_not_idempotent", DELIVERED, ORDER, ONCE),
        {ONCE: _STORED_ONCE},
    ),
    Trial(
        "kafka",
        "one-in-flight",
        "With one request at a time, records are stored twice and stay in order.",
        {"acks": "all", "enable.idempotence": "false", "max.in.flight": "1"},
        _SINGLE,
        _CUT,
        _log("kafka_one_in_flight", DELIVERED, ONCE, ORDER),
    ),
    Trial(
        "kafka",
        "idempotent",
        "The broker recognises what an idempotent producer sends again.",
        {"acks": "all", "enable.idempotence": "true"},
        _SINGLE,
        _CUT,
        _log("kafka_acks_all", DELIVERED, ONCE, ORDER),
    ),
    Trial(
        "kafka",
        "idempotent-reordering",
        "The broker tells an idempotent producer that something is missing, and stores nothing after it.",
        {"acks": "all", "enable.idempotence": "true"},
        _SINGLE,
        _LOST,
        _log("kafka_acks_all", DELIVERED, ORDER, ONCE),
    ),
    Trial(
        "kafka",
        "read-uncommitted",
        "A reader of isolation level read_uncommitted sees what was aborted.",
        {"isolation.level": "read_uncommitted"},
        _TRANSACTIONS,
        "",
        _transactions("transactions_read_uncommitted"),
        {
            Property.WHOLE: Difference(
                Word.HELD,
                "a history asks it of committed transactions, in the end; the model also counts an "
                "aborted one of which a part was read",
            )
        },
    ),
    Trial(
        "kafka",
        "read-committed",
        "A reader of isolation level read_committed sees only what was committed.",
        {"isolation.level": "read_committed"},
        _TRANSACTIONS,
        "",
        _transactions("transactions_verified"),
        {Property.ABORTED: _LATE_WRITE, Property.WHOLE: _LATE_WRITE},
    ),
    Trial(
        "kafka",
        "late-write",
        "A write arrives after its transaction was aborted, at a broker that trusts its producers.",
        {"isolation.level": "read_committed", "transaction.partition.verification.enable": "false"},
        _TWO_TRANSACTIONS,
        _HELD_BACK,
        (Pair(Property.ABORTED, "late_write_old_client_v2_off", "aborted_is_never_read"),),
    ),
    Trial(
        "kafka",
        "late-write-verified",
        "The same at a broker that asks the coordinator whether the transaction is open, as by default.",
        {"isolation.level": "read_committed", "transaction.partition.verification.enable": "true"},
        _TWO_TRANSACTIONS,
        _HELD_BACK,
        (Pair(Property.ABORTED, "late_write_old_client_v2_on", "aborted_is_never_read"),),
    ),
    Trial(
        "kafka",
        "fenced",
        "A second producer takes over the transactional id while the first one has a transaction open.",
        {"transactional.id": "the same for both"},
        "two producers, of which the first one tries to commit after the second one has opened the id",
        "",
        (Pair(Property.FENCED, "transactions_verified", "fenced_never_commits"),),
    ),
    Trial(
        "kafka",
        "auto-commit",
        "A member that commits by timer dies before it has processed what it was given.",
        {"enable.auto.commit": "true"},
        _TAKEN_OVER,
        "the first member ends without a word to the group",
        _group("kafka_auto_commit_no_pause"),
    ),
    Trial(
        "kafka",
        "manual-commit",
        "A member that commits what it has processed dies; another one processes the rest.",
        {"enable.auto.commit": "false"},
        _TAKEN_OVER,
        "the first member ends without a word to the group",
        _group("kafka_no_pause"),
    ),
)
