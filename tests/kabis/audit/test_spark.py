"""The audit on Spark: planted faults in files, and a real cluster whose parties lie, fall silent or end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench._audit import PLANTED, STORAGE, Plan, sign_of, write_chain
from tests.kabis.session.console import Console, opened
from veristream.errors import EnvironmentFailure
from veristream.kabis.audit import job
from veristream.kabis.audit.findings import Kind
from veristream.kabis.audit.plan import LedgerRow, What
from veristream.kabis.audit.registry import Ordered
from veristream.kabis.audit.rows import to_table
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import StartOptions
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.protocol.genesis import load_genesis
from veristream.kabis.protocol.records import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MASTER = ("--master", "local[2]")
EVENTS, BATCH = 120, 5
PARTITIONS = 2


def audit_files(session: SparkSession, folder: Path, scope: job.AuditScope) -> job.AuditReport:
    genesis = load_genesis(folder / "genesis.json")
    return job.audit(session, job.Files(folder, genesis), scope, lambda _: None)


def test_all_planted_faults_and_nothing_else(session: SparkSession, tmp_path: Path) -> None:
    """40,000 events in 1,000 batches at three parties, ten faults of each kind."""
    plan = Plan(batches=1000, batch_events=40, faults=10)
    planted = write_chain(tmp_path, plan)
    report = audit_files(session, tmp_path, job.AuditScope(samples_max=1000))
    assert {sign_of(each) for each in report.findings} == planted
    assert len(report.findings) == len(planted) == 10 * len(PLANTED)
    assert report.counts == {kind: 10 if kind in PLANTED else 0 for kind in Kind}
    assert (report.checked.events, report.checked.batches, report.checked.blocks) == (40_000, 1000, 101)
    assert sum(line.events for line in report.streams) == 40_000
    assert sum(events for _, events in report.timeline) == 40_000
    # Three votes in each block, two receipts and one header in each batch, and every copy's own signature:
    # ten of those are withheld, ten are signed twice, ten are phantoms.
    assert report.checked.signatures == 3 * 101 + 3 * 1000 + 3 * 1000 + 10 - spoilt_votes(report)


def test_batches_of_limited_topics_are_collected(session: SparkSession) -> None:
    rows = [
        LedgerRow(What.BATCH, height, 0, 100 * height, topic, 0, "alice", 0, 2 * height, 2)
        for height, topic in enumerate(("orders", "logs", "orders"), start=1)
    ]
    rows.append(LedgerRow(What.FACT, 4, topic="orders"))
    ledger = session.createDataFrame(to_table(LedgerRow, rows))
    found = job._take(job.find_admitted(ledger, ("orders",)), Ordered)
    assert sorted(found, key=lambda each: each.height) == [
        Ordered(1, 0, 100, "orders", 0, 2),
        Ordered(3, 0, 300, "orders", 0, 2),
    ]


def spoilt_votes(report: job.AuditReport) -> int:
    """A certificate is not read past its first bad vote: of the five spoilt ones two votes each are not;
    and phantoms are of a stream that the ledger does not count."""
    return (
        2 * sum(each.kind == Kind.UNVERIFIABLE_RECEIPT and not each.accused for each in report.findings)
        + 10
    )


def test_samples_are_bounded_and_counts_are_not(session: SparkSession, tmp_path: Path) -> None:
    write_chain(tmp_path, Plan(batches=160, batch_events=2, faults=3))
    report = audit_files(session, tmp_path, job.AuditScope(samples_max=1))
    assert report.counts == {kind: 3 if kind in PLANTED else 0 for kind in Kind}
    assert sorted(each.kind for each in report.findings) == sorted(PLANTED)
    shutdown_party(tmp_path, STORAGE[2])
    missing = audit_files(session, tmp_path, job.AuditScope(samples_max=1))
    assert missing.counts[Kind.SILENT] == 1
    assert [line.unanswered > 0 for line in missing.parties] == [False, False, True]


def test_blocks_that_cannot_be_read_are_told_in_our_words(session: SparkSession, tmp_path: Path) -> None:
    write_chain(tmp_path, Plan(batches=24, batch_events=2, faults=0))
    (path,) = (tmp_path / "validator-1" / "blocks").glob("*.segment")
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(EnvironmentFailure) as failed:
        audit_files(session, tmp_path, job.AuditScope())
    assert failed.value.message.startswith(f"blocks of validator-1 cannot be read: {path} at byte")
    assert session.conf.get(job.SHUFFLES) == "200", "the session is left as it was"


def shutdown_party(folder: Path, party: str) -> None:
    for path in (folder / party / "log").iterdir():
        path.unlink()


def push(data: Path, *topics: str) -> None:
    """Small batches to both partitions, one of each at a time."""
    with Access(ClusterFolder(data)).producer(options=ProducerOptions(batch_events=BATCH)) as producer:
        for topic in topics:
            pushed = [
                producer.push(Record(topic, b"%d" % number, partition=number // BATCH % PARTITIONS))
                for number in range(EVENTS)
            ]
            for each in pushed:
                each.result(120)


def audited(run: Console, code: int, *words: object) -> dict[str, Any]:
    ended = run("audit", *MASTER, "--json", *words)
    assert ended.code == code, ended.output + ended.told
    found: dict[str, Any] = json.loads(ended.output)
    return found


def faults_of(report: dict[str, Any]) -> dict[str, int]:
    return {kind: count for kind, count in report["counts"].items() if count and kind != "phantom"}


def lie(run: Console, **faults: str) -> None:
    """Starts parties again, with a fault each."""
    chosen = {name.replace("_", "-"): fault for name, fault in faults.items()}
    run.cluster.stop(chosen)
    run.cluster.start(StartOptions(attended=False, faults=chosen), chosen)


def test_the_liars_of_a_cluster_are_named(session: SparkSession, tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as run:
        run.do("up", "--detach")
        for topic in ("orders", "bills"):
            run.do("topic", "create", topic, "--partitions", PARTITIONS)
        run.do("topic", "create", "plain", "--unvalidated")
        run.cluster.stop(["storage-3"])  # so that the other two vouch for the orders, slow as one may be
        push(run.data, "orders")
        run.cluster.start(StartOptions(attended=False), ["storage-3"])
        push(run.data, "bills")
        batches = nothing_is_wrong(run, tmp_path)
        liars_are_named(run, batches)
        silence_is_told(run)
        wrong_questions(run)
        run.do("down")
        ended = run("audit", *MASTER)
        assert (ended.code, ended.output) == (3, "")
        assert "is down" in ended.told
        assert faults_of(audited(run, 0, "--files")) == {}, (
            "they lied, and their disks are as they should be"
        )


def nothing_is_wrong(run: Console, tmp_path: Path) -> int:
    page = tmp_path / "audit.html"
    report = audited(run, 0, "--html", page)
    assert (report["clean"], report["topics"]) == (True, ["bills", "orders"])
    places = [
        (line["topic"], line["partition"], line["producer"], line["events"]) for line in report["streams"]
    ]
    assert places == [
        (topic, partition, "producer", EVENTS // PARTITIONS)
        for topic in ("bills", "orders")
        for partition in range(PARTITIONS)
    ]
    assert report["checked"]["events"] == 2 * EVENTS
    assert "No fault was found." in page.read_text(encoding="utf-8")
    batches = int(report["checked"]["batches"])
    assert batches >= 2 * EVENTS // BATCH
    return batches


def liars_are_named(run: Console, batches: int) -> None:
    lie(run, storage_1="alter", storage_2="withhold")
    report = audited(run, 1, "--findings", 2)
    first, second, third = report["parties"]
    assert faults_of(report) == {"altered": first["copies"], "withheld": second["vouched"]}
    assert {(each["kind"], each["accused"]) for each in report["accused"] if each["kind"] != "phantom"} == {
        ("altered", "storage-1"),
        ("withheld", "storage-2"),
    }
    assert (first["good"], second["copies"], second["good"]) == (0, 0, 0)
    assert first["copies"] >= first["vouched"] > 0
    assert third["good"] == third["copies"] >= third["vouched"]
    assert first["vouched"] + second["vouched"] + third["vouched"] >= 2 * batches
    assert sum(each["kind"] == "altered" for each in report["findings"]) == 2


def silence_is_told(run: Console) -> None:
    run.cluster.stop(["storage-1", "storage-2"])
    run.cluster.start(StartOptions(attended=False), ["storage-1"])
    report = audited(run, 1, "--topic", "orders")
    assert faults_of(report) == {"silent": 1}
    assert [(each["kind"], each["accused"]) for each in report["accused"] if each["kind"] == "silent"] == [
        ("silent", "storage-2")
    ]
    assert report["topics"] == ["orders"]
    assert {line["topic"] for line in report["streams"]} == {"orders"}
    assert report["parties"][1]["unanswered"] == report["parties"][1]["vouched"] > 0
    run.cluster.start(StartOptions(attended=False), ["storage-2"])


def wrong_questions(run: Console) -> None:
    for topic, told in (
        ("nothing", "error: there is no topic nothing\n"),
        ("plain", "error: cannot audit the unvalidated topic plain\n"),
    ):
        ended = run("audit", *MASTER, "--topic", topic)
        assert (ended.code, ended.output) == (2, "")
        assert ended.told == told + "hint: validated topics: bills, orders\n"
