"""A chain and receipts of an earlier version, recorded as files: they are read, upgraded, and stay valid.

The archive is the folder of a cluster after these commands of commit 56f7901, without what only a running
process writes there, and with the exported receipts beside it:

    up; topic create orders; topic create clicks --unvalidated
    produce orders --key anna              two pears, three plums
    produce orders                         1 to 500
    produce clicks                         page 7
    consume orders --group shipping --from-beginning --max 100
    receipt export orders 0; receipt export orders 250
    key rotate producer; produce orders    after rotation
    receipt export orders 502
    client add anna; seal new letters letters.keys; topic create letters
    produce letters --seal letters.keys --as anna      dear Anna
    topic trim orders --before 100; down
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.kabis.session.console import Console, opened
from veristream.kabis import ReceiptError, verify_receipt
from veristream.kabis.cluster.folder import ClusterFolder, place
from veristream.kabis.ledger.state import Protocol
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.snapshots import find_newest
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.keys import verify

ARCHIVE = Path(__file__).parent / "recorded" / "older-chain.tar.xz"
RECEIPTS = {0: b"two pears", 250: b"249", 502: b"after rotation"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of the recorded cluster."""
    folder = tmp_path / "cluster"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def receipt(data: Path, index: int) -> bytes:
    return (data / "receipts" / f"orders-{index}.json").read_bytes()


@pytest.mark.parametrize(("index", "value"), RECEIPTS.items())
def test_receipts_of_the_earlier_version_hold(data: Path, index: int, value: bytes) -> None:
    genesis = ClusterFolder(data).genesis()
    assert verify_receipt(receipt(data, index), genesis).event.value == value
    assert b'"kabis": "receipt/1"' in receipt(data, index)
    forged = receipt(data, index).replace(b'"partition": 0', b'"partition": 1')
    with pytest.raises(ReceiptError, match="the facts in the file differ"):
        verify_receipt(forged, genesis)


@pytest.mark.parametrize("validator", [f"validator-{number}" for number in range(1, 5)])
def test_every_validators_blocks_are_read(data: Path, validator: str) -> None:
    genesis = ClusterFolder(data).genesis()
    with Log(data / validator / "blocks") as log:
        ledger = BlockStore(log).open(genesis, verify)
    assert (ledger.height, ledger.protocol) == (13, Protocol(1))
    bounds = ledger.partition("orders", 0)
    assert (bounds.low_water, bounds.next_index) == (100, 503)
    assert sorted(ledger.keys()) == [
        ("admin", 0),
        ("anna", 0),
        ("consumer", 0),
        ("producer", 0),
        ("producer", 1),
    ]
    assert ledger.committed("shipping", "orders", 0) == 100


@pytest.mark.long
@pytest.mark.xdist_group("kabis-older-chain")
def test_a_cluster_of_the_earlier_version_goes_on_and_is_upgraded(data: Path) -> None:
    place(ClusterFolder(data), ClusterFolder(data).genesis(), 0)  # the recorded ports may be in use
    with opened(data) as console:
        console.do("up", "--detach")
        read_all(console)
        first = b"".join(b"%d\n" % number for number in range(99, 109)).decode()
        group = ("--group", "shipping", "--max", 10)
        assert console.do("consume", "orders", *group).output == first  # it continues where it was
        refused = console("topic", "retain", "orders", "--batches", 2)
        assert (refused.code, "lacks this; an admin may upgrade it" in refused.told) == (2, True)
        assert console.do("upgrade", "--at", 20).output == "protocol version 2 from block 20 on\n"
        for number in range(503, 510):
            acknowledged = f"1 event acknowledged at orders-0 {number}\n"
            assert console.do("produce", "orders", given=f"later {number}\n").output == acknowledged
        limited = console.do("topic", "retain", "orders", "--batches", 3).output
        assert limited == "orders: each partition keeps 3 batches\n"
        console.do("produce", "orders", given="last\n")
        console.do("receipt", "export", "orders", 510, "--out", data / "receipts" / "orders-510.json")
        snapshots(console)
    genesis = ClusterFolder(data).genesis()
    for index, value in (RECEIPTS | {510: b"last"}).items():
        assert verify_receipt(receipt(data, index), genesis).event.value == value


def read_all(console: Console) -> None:
    """Events of every kind of topic are those that the earlier version acknowledged."""
    numbers = "".join(f"{number}\n" for number in range(99, 501))
    everything = console.do("consume", "orders", "--from-beginning", "--max", 403).output
    assert everything == f"{numbers}after rotation\n"
    plain = ("consume", "clicks", "--from-beginning", "--max", 1, "--no-validate")
    assert console.do(*plain).output == "page 7\n"
    sealed = ("consume", "letters", "--from-beginning", "--max", 1, "--seal", console.data / "letters.keys")
    assert console.do(*sealed).output == "dear Anna\n"
    acknowledged = "1 event acknowledged at letters-0 1\n"
    anna = ("--seal", console.data / "letters.keys", "--as", "anna")
    assert console.do("produce", "letters", *anna, given="again\n").output == acknowledged


def snapshots(console: Console) -> None:
    """After a restart that takes one at each block, validators and clients start from snapshots."""
    console.do("down")
    settings = "[snapshots]\nevery_blocks = 1\nkeep_blocks = 1\nsegment_bytes = 65536\n"
    (console.data / "kabis.toml").write_text(settings, encoding="utf-8")
    console.do("up", "--detach")
    for number in range(3):
        console.do("produce", "orders", given=f"{number}\n")
    console.do("down")
    taken = [find_newest(console.data / f"validator-{number}" / "snapshots") for number in range(1, 5)]
    assert any(taken)
    console.do("up", "--detach")
    assert console.do("produce", "orders", given="4\n").output == "1 event acknowledged at orders-0 514\n"
