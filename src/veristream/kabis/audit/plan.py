"""What the ledger says was admitted, from its blocks: read by tasks, each block checked for itself.

A task takes blocks of consecutive heights. It verifies every certificate and every storage receipt, and
that each block names the one before; it does not replay the ledger's rules, which would have to go from the
first block to the last. What needs all blocks before (keys, low-water marks, skipped batches) goes to
`registry` as facts, which are few; the admitted batches stay in tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from veristream.kabis.audit.findings import Finding, Kind, Role
from veristream.kabis.protocol.actions import Hole, LowWater, RegisterKey, RevokeKey, RotateKey, SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.receipts import CertificateError, StorageReceipt
from veristream.kabis.protocol.transactions import (
    BatchConflict,
    Signed,
    Skip,
    Submit,
    VoteConflict,
    decode_transaction,
)


class What(StrEnum):
    """What a row of the ledger is."""

    BATCH = "batch"
    FACT = "fact"
    FINDING = "finding"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One thing that a block says; which columns count depends on `what`.

    A batch has its encoded signed header as `body` and the parties whose receipts are good as `vouched`. A
    fact has its encoded transaction. A range is what one task has read: `height` to `last`, `count` blocks,
    the last one's time and, as `digest`, its id, and as `body` that of the one before the first; so many
    `signatures` were verified.
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


_LASTING = (SetTopic, RegisterKey, RotateKey, RevokeKey, LowWater, Hole)


class _Counted:
    """Verifies, and counts how often."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self.count = 0

    def __call__(self, public: bytes, message: bytes, signature: bytes) -> None:
        self.count += 1
        self._verify(public, message, signature)


def scan_blocks(
    genesis: Genesis, blocks: Iterable[CertifiedBlock], verify: Verify = verify_signature
) -> Iterator[LedgerRow]:
    """The rows of consecutive blocks, and in the end the range that they cover; of no blocks, nothing."""
    counted = _Counted(verify)
    first: CertifiedBlock | None = None
    last: CertifiedBlock | None = None
    count = 0
    for certified in blocks:
        if last is not None:
            yield from _check_link(last, certified)
        yield from scan_block(genesis, certified, counted)
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


def scan_block(genesis: Genesis, certified: CertifiedBlock, verify: Verify) -> Iterator[LedgerRow]:
    """The rows of one block: its certificate's faults, then each transaction that an audit looks at."""
    header, certificate = certified.block.header, certified.certificate
    try:
        if (certificate.height, certificate.block_id) != (header.height, header.block_id()):
            raise CertificateError("the votes are for another block")
        certificate.verify(genesis.chain_id, genesis.validator_keys, verify)
    except CertificateError as error:
        yield _unverifiable(Role.LEDGER, "", header.height, f"the certificate: {error}")
    for number, encoded in enumerate(certified.block.transactions):
        try:
            transaction = decode_transaction(encoded)
        except DecodeError as error:
            yield _unverifiable(Role.LEDGER, "", header.height, f"transaction {number}: {error}")
            continue
        match transaction:
            case Submit():
                yield from _scan_submit(genesis, certified, number, transaction, verify)
            case Signed(action=action) if isinstance(action, _LASTING):
                yield LedgerRow(What.FACT, header.height, number, header.time_ms, body=encoded)
            case Skip() | BatchConflict() | VoteConflict():
                yield LedgerRow(What.FACT, header.height, number, header.time_ms, body=encoded)
            case _:
                pass  # consumer groups


def check_ranges(genesis: Genesis, ranges: Iterable[LedgerRow]) -> Iterator[Finding]:
    """Where a range of blocks does not go on from the one before it; the first goes on from the genesis."""
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
    detail = f"block {height} does not follow the block before it"
    return Finding(Kind.UNVERIFIABLE_RECEIPT, Role.LEDGER, "", height=height, detail=detail)


def _scan_submit(
    genesis: Genesis, certified: CertifiedBlock, number: int, submit: Submit, verify: Verify
) -> Iterator[LedgerRow]:
    block, header, digest = certified.block.header, submit.signed.header, submit.signed.digest()
    vouched = []
    for receipt in submit.receipts:
        problem = find_receipt_problem(genesis, receipt, digest, verify)
        if problem is None:
            vouched.append(receipt.party)
        else:
            yield _unverifiable(Role.STORAGE, receipt.party, block.height, problem, submit)
    if len(submit.receipts) < genesis.receipts_needed:
        problem = f"{len(submit.receipts)} storage receipts where {genesis.receipts_needed} are needed"
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
    genesis: Genesis, receipt: StorageReceipt, digest: bytes, verify: Verify
) -> str | None:
    """Why a storage receipt is no receipt for this batch; None if it is one."""
    public = next((party.public for party in genesis.storage if party.name == receipt.party), None)
    if public is None:
        return "the receipt is of nobody who stores"
    if receipt.digest != digest:
        return "the receipt is for another batch"
    try:
        receipt.verify(genesis.chain_id, public, verify)
    except SignatureError:
        return "the receipt is not signed by the party"
    return None


def _unverifiable(
    role: Role, accused: str, height: int, detail: str, submit: Submit | None = None
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
    """A finding as a row of the ledger."""
    return LedgerRow(What.FINDING, **asdict(finding))
