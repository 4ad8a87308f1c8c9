"""Extracts the admitted batches from the ledger's blocks, in tasks that check each block on its own.

A task reads blocks of consecutive heights. It verifies every certificate, every storage receipt, and the
link of each block to the previous one. It does not replay the ledger's rules, which would require all
blocks in order. What depends on all earlier blocks (keys, low-water marks, skipped batches) goes to
`registry` as a few facts; the admitted batches stay in tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import get_args

from veristream.kabis.audit.findings import Finding, Kind, Role
from veristream.kabis.audit.history import History
from veristream.kabis.protocol import transactions
from veristream.kabis.protocol.actions import (
    AccessAction,
    Hole,
    LowWater,
    RegisterKey,
    RevokeKey,
    RotateKey,
    SetMembers,
    SetRetention,
    SetTopic,
)
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole, Members
from veristream.kabis.protocol.receipts import CertificateError, StorageReceipt


class What(StrEnum):
    """Kinds of ledger rows."""

    BATCH = "batch"
    FACT = "fact"
    FINDING = "finding"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One statement of a block; `what` determines the columns that are used.

    A batch has its encoded signed header as `body`, and the parties with valid receipts as `vouched`. A
    fact has its encoded transaction. A range describes what one task has read: `count` blocks from `height`
    to `last`, the time and id (`digest`) of the last one, the id of the block before the first (`body`),
    and the number of verified `signatures`.
    """

    what: str
    height: int
    number: int = 0
    time_ms: int = 0
    topic: str = ""
    partition: int = 0
    producer: str = ""
    key_epoch: int = 0
    sequence: int = -1
    count: int = 0
    digest: bytes = b""
    body: bytes = b""
    vouched: tuple[str, ...] = ()
    kind: str = ""
    role: str = ""
    accused: str = ""
    detail: str = ""
    last: int = 0
    signatures: int = 0


_LASTING = (
    *(SetTopic, SetRetention, RegisterKey, RotateKey, RevokeKey, LowWater, Hole, SetMembers),
    *get_args(AccessAction),
)


class _Counted:
    """Verifies signatures and counts them."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self.count = 0

    def __call__(self, public: bytes, message: bytes, signature: bytes) -> None:
        self.count += 1
        self._verify(public, message, signature)


def scan_blocks(
    history: History, blocks: Iterable[CertifiedBlock], verify: Verify = verify_signature
) -> Iterator[LedgerRow]:
    """Yields the rows of consecutive blocks, and finally their range; nothing if there are no blocks."""
    counted = _Counted(verify)
    first: CertifiedBlock | None = None
    last: CertifiedBlock | None = None
    count = 0
    for certified in blocks:
        if last is not None:
            yield from _check_link(last, certified)
        yield from scan_block(history, certified, counted)
        first, last, count = first or certified, certified, count + 1
    if first is not None and last is not None:
        yield LedgerRow(
            What.RANGE,
            first.block.header.height,
            time_ms=last.block.header.time_ms,
            count=count,
            digest=last.block.block_id(),
            body=first.block.header.previous,
            last=last.block.header.height,
            signatures=counted.count,
        )


def scan_block(history: History, certified: CertifiedBlock, verify: Verify) -> Iterator[LedgerRow]:
    """Yields the rows of one block: faults of its certificate, then each transaction that matters here."""
    header, certificate = certified.block.header, certified.certificate
    keys = history.at(header.height).validator_keys
    try:
        if (certificate.height, certificate.block_id) != (header.height, header.block_id()):
            raise CertificateError("the votes are for another block")
        certificate.verify(history.genesis.chain_id, keys, verify)
    except CertificateError as error:
        yield _unverifiable(Role.LEDGER, "", header.height, f"invalid certificate: {error}")
    for number, encoded in enumerate(certified.block.transactions):
        try:
            transaction = transactions.decode_transaction(encoded)
        except DecodeError as error:
            yield _unverifiable(Role.LEDGER, "", header.height, f"transaction {number}: {error}")
            continue
        match transaction:
            case transactions.Submit():
                yield from _scan_submit(history, certified, number, transaction, verify)
            case transactions.Signed(action=action) if isinstance(action, _LASTING):
                yield LedgerRow(What.FACT, header.height, number, header.time_ms, body=encoded)
            case transactions.Skip() | transactions.BatchConflict() | transactions.VoteConflict():
                yield LedgerRow(What.FACT, header.height, number, header.time_ms, body=encoded)
            case _:
                pass  # transactions of consumer groups


def check_ranges(genesis: Genesis, ranges: Iterable[LedgerRow]) -> Iterator[Finding]:
    """Yields a finding for each range that does not follow the previous one, or the genesis."""
    height, before = 0, genesis.digest()
    for each in sorted(ranges, key=lambda row: row.height):
        if each.height != height + 1 or each.body != before:
            yield _unlinked(each.height)
        height, before = each.last, each.digest


def _check_link(before: CertifiedBlock, after: CertifiedBlock) -> Iterator[LedgerRow]:
    header = after.block.header
    if (header.height, header.previous) != (before.block.header.height + 1, before.block.block_id()):
        yield as_row(_unlinked(header.height))


def _unlinked(height: int) -> Finding:
    detail = f"block {height} does not follow the previous block"
    return Finding(Kind.UNVERIFIABLE_RECEIPT, Role.LEDGER, "", height=height, detail=detail)


def _scan_submit(
    history: History, certified: CertifiedBlock, number: int, submit: transactions.Submit, verify: Verify
) -> Iterator[LedgerRow]:
    block, header, digest = certified.block.header, submit.signed.header, submit.signed.digest()
    members, vouched = history.at(block.height), []
    for receipt in submit.receipts:
        problem = find_receipt_problem(members, receipt, block.chain_id, digest, verify)
        if problem is None:
            vouched.append(receipt.party)
        else:
            yield _unverifiable(Role.STORAGE, receipt.party, block.height, problem, submit)
    if len(submit.receipts) < members.receipts_needed:
        problem = f"{len(submit.receipts)} storage receipts; {members.receipts_needed} are required"
        yield _unverifiable(Role.LEDGER, "", block.height, problem, submit)
    yield LedgerRow(
        What.BATCH,
        block.height,
        number,
        block.time_ms,
        header.topic,
        header.partition,
        header.producer,
        header.key_epoch,
        header.first_sequence,
        header.count,
        digest,
        submit.signed.encode(),
        tuple(vouched),
    )


def find_receipt_problem(
    members: Members, receipt: StorageReceipt, chain_id: str, digest: bytes, verify: Verify
) -> str | None:
    """Returns why a storage receipt is not valid for this batch, or None."""
    party = members.find(MemberRole.STORAGE, receipt.party)
    if party is None:
        return "the receipt is not from a storage party"
    if receipt.digest != digest:
        return "the receipt is for another batch"
    try:
        receipt.verify(chain_id, party.public, verify)
    except SignatureError:
        return "the receipt is not signed by the party"
    return None


def _unverifiable(
    role: Role, accused: str, height: int, detail: str, submit: transactions.Submit | None = None
) -> LedgerRow:
    found = Finding(Kind.UNVERIFIABLE_RECEIPT, role, accused, height=height, detail=detail)
    if submit is None:
        return as_row(found)
    header = submit.signed.header
    place = (header.topic, header.partition, header.producer, header.key_epoch)
    return as_row(
        Finding(found.kind, role, accused, *place, header.first_sequence, header.count, height, detail)
    )


def as_row(finding: Finding) -> LedgerRow:
    """Converts a finding to a ledger row."""
    return LedgerRow(What.FINDING, **asdict(finding))
