"""The audit without Spark: the same steps one after the other, on what is in memory or in files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.audit import disk
from veristream.kabis.audit.check import Admitted, BatchCopy, Stream, judge
from veristream.kabis.audit.findings import Finding, Tally
from veristream.kabis.audit.history import History, find_history
from veristream.kabis.audit.plan import LedgerRow, What, check_ranges, scan_blocks
from veristream.kabis.audit.registry import Fact, Ordered, Registry, read_facts
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis, load_genesis

Group = tuple[str, int, str]


@dataclass(frozen=True)
class Read:
    """What the ledger says, read whole."""

    genesis: Genesis
    rows: list[LedgerRow]
    registry: Registry
    findings: list[Finding]

    def admitted(self) -> dict[Group, list[Admitted]]:
        """The batches by stream, with their indices."""
        groups: dict[Group, list[Admitted]] = defaultdict(list)
        ends: dict[tuple[str, int], int] = defaultdict(int)
        batches = [row for row in self.rows if row.what == What.BATCH]
        for row in sorted(batches, key=lambda each: (each.height, each.number)):
            index = ends[row.topic, row.partition]
            ends[row.topic, row.partition] += row.count
            place = (row.topic, row.partition, row.producer)
            numbers = (row.key_epoch, row.sequence, row.count)
            groups[place].append(
                Admitted(row.height, row.number, *place, *numbers, row.digest, row.body, row.vouched, index)
            )
        return groups


def read_ledger(genesis: Genesis, blocks: Sequence[CertifiedBlock]) -> Read:
    rows = list(scan_blocks(find_history(genesis, blocks), blocks))
    facts = [Fact(row.height, row.number, row.body) for row in rows if row.what == What.FACT]
    registry, findings = read_facts(genesis, facts)
    registry.retain(
        Ordered(row.height, row.number, row.time_ms, row.topic, row.partition, row.count)
        for row in rows
        if row.what == What.BATCH and row.topic in registry.limited_topics()
    )
    findings += check_ranges(genesis, [row for row in rows if row.what == What.RANGE])
    findings += [finding_of(row) for row in rows if row.what == What.FINDING]
    return Read(genesis, rows, registry, findings)


def finding_of(row: LedgerRow) -> Finding:
    place = (row.topic, row.partition, row.producer, row.key_epoch, row.sequence, row.count)
    return Finding(row.kind, row.role, row.accused, *place, row.height, row.detail)


def judge_all(
    read: Read,
    stored: Iterable[BatchCopy],
    unread: frozenset[str] = frozenset(),
    history: History | None = None,
) -> tuple[list[Finding], list[Tally]]:
    """All findings and tallies; the findings of the ledger first."""
    given: dict[Group, list[BatchCopy]] = defaultdict(list)
    for each in stored:
        given[each.topic, each.partition, each.producer].append(each)
    admitted: Mapping[Group, list[Admitted]] = read.admitted()
    history = history or History(read.genesis)
    parties, former = history.storage_names(), history.former()
    findings, tallies = list(read.findings), []
    for group in sorted({*given, *admitted}):
        stream = Stream(
            read.registry,
            parties,
            unread,
            tuple(admitted.get(group, ())),
            tuple(given.get(group, ())),
            former,
        )
        for found in judge(stream):
            if isinstance(found, Finding):
                findings.append(found)
            else:
                tallies.append(found)
    return findings, tallies


def audit_files(folder: Path) -> tuple[list[Finding], list[Tally]]:
    """The audit of a folder of files."""
    genesis = load_genesis(folder / "genesis.json")
    blocks = [
        block for segment in disk.block_segments(folder, genesis) for block in disk.read_blocks(segment)
    ]
    read, history = read_ledger(genesis, blocks), find_history(genesis, blocks)
    stored = [
        each
        for segment in disk.storage_segments(folder, history.storage_names())
        for each in disk.read_stored(segment, read.registry, None)
    ]
    return judge_all(read, stored, history=history)
