"""What goes wrong on a laptop: one message each, which says what to do, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.session.console import Console, Ended, opened
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.protocol.keys import SEED_BYTES, make_key, save_key
from veristream.kabis.protocol.records import LEAF_BYTES_MAX, Record
from veristream.kabis.wire.ports import find_range
from veristream_testing.limits import file_size_limit

pytestmark = pytest.mark.xdist_group("kabis-bad-input")

PARTY = "storage-2"
"""Whose disk is damaged: always the same one, for F is 1."""
COUNT = 200
"""Pushed in goes of twenty, so that every log has many records."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A cluster that is up, with a validated topic of so many events."""
    with opened(tmp_path_factory.mktemp("bad") / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        for first in range(0, COUNT, 20):
            given = "".join(f"event {number}\n" for number in range(first, first + 20))
            console.do("produce", "orders", given=given)
        yield console


def require_all(run: Console, count: int = COUNT) -> None:
    """Every event is there, as it was pushed and in its order."""
    found = run.do("consume", "orders", "--partition", 0, "--from", 0, "--max", count, "--timeout", 30)
    assert found.lines()[:COUNT] == [f"event {number}" for number in range(COUNT)]
    assert len(found.lines()) == count


def require_some(run: Console) -> None:
    """Every event is there that was there from the start; others may have come behind them."""
    found = run.do("consume", "orders", "--partition", 0, "--from", 0, "--max", COUNT, "--timeout", 30)
    assert found.lines() == [f"event {number}" for number in range(COUNT)]


def segment_of(run: Console, party: str) -> Path:
    (segment,) = (run.data / party / "log").glob("*.segment")
    return segment


def damage_and_repair(run: Console, reason: str) -> None:
    """It does not start, says why and what helps; with that it starts, and others have what it lost."""
    party = PARTY
    refused = run("up", "--detach")
    assert refused.code == 3
    message, hint = refused.told.splitlines()
    path = re.escape(str(segment_of(run, party).resolve()))
    start = f"error: {party} did not start: {path} is damaged"
    found = re.fullmatch(rf"{start} at byte \d+, record \d+: (.*)", message)
    assert found is not None and found[1] == reason, message
    assert hint.startswith("hint: ") and "--repair" in hint
    assert run.cluster.find() == {}
    run.do("up", "--detach", "--repair")
    seen = run.look(all_answer, "status", "--json")
    lost = {each["name"]: each["lost"] for each in parties_of(seen) if each["lost"]}
    assert list(lost) == [party]
    line = f"{party} lost {lost[party]} records to damage on its disk"
    assert line in run.look(lambda seen: line in seen.lines(), "status").lines()
    require_all(run)


def parties_of(seen: Ended) -> list[dict[str, Any]]:
    parties: list[dict[str, Any]] = json.loads(seen.output)["parties"]
    return parties


def all_answer(seen: Ended) -> bool:
    return all(each["answers"] for each in parties_of(seen))


def find_event(segment: Path, share: float) -> int:
    """Where in a log an event begins that lies so far behind the first; all are there, or nearly all.

    Two parties out of three have each event for certain, and this one may be the third.
    """
    found = [each.start() for each in re.finditer(rb"event \d+", segment.read_bytes())]
    assert len(found) > COUNT // 2
    return found[int(share * len(found))]


def test_a_flipped_bit(run: Console) -> None:
    run.do("down")
    segment = segment_of(run, PARTY)
    data = bytearray(segment.read_bytes())
    data[find_event(segment, 0.75)] ^= 0x10
    segment.write_bytes(data)
    damage_and_repair(run, "the checksum of a record is wrong")


def test_a_truncated_segment(run: Console) -> None:
    run.do("down")
    segment = segment_of(run, PARTY)
    os.truncate(segment, find_event(segment, 0.5))
    damage_and_repair(run, "the file ends within a record")


@pytest.mark.long
def test_a_flipped_bit_in_a_validators_blocks(run: Console, tmp_path: Path) -> None:
    """The validator says what to do; done so, it gets from the others what it lost."""
    run.do("down")
    blocks = run.data / "validator-3" / "blocks"
    (segment,) = blocks.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[data.index(b"orders", len(data) // 2)] ^= 0x01  # within a block, and not in what frames it
    segment.write_bytes(data)
    refused = run("up", "--detach")
    assert (refused.code, refused.output) == (3, "")
    message, hint = refused.told.splitlines()
    path = re.escape(str(segment.resolve()))
    assert re.fullmatch(
        rf"error: validator-3 did not start: {path} is damaged at byte \d+, record \d+: the checksum .*",
        message,
    )
    assert hint == (
        f"hint: move {blocks.resolve()} away and restart the validator: the others have the blocks"
    )
    assert run.cluster.find() == {}
    blocks.rename(tmp_path / "blocks")
    run.do("up", "--detach")
    require_some(run)
    lags = lags_of(run.look(lambda seen: {*lags_of(seen).values()} == {0}, "status", "--json"))
    assert lags == dict.fromkeys((f"validator-{number}" for number in range(1, 5)), 0)


def lags_of(seen: Ended) -> dict[str, int | None]:
    return {each["name"]: each["lag"] for each in parties_of(seen) if each["role"] == "validator"}


def test_a_damaged_journal(run: Console, tmp_path: Path) -> None:
    """It holds what was signed and not acknowledged; without it the producer goes on from the ledger."""
    journal = run.data / "journals" / "producer"
    segment = sorted(journal.glob("*.segment"))[-1]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:8] + bytes(4) + whole[12:])
    refused = run("produce", "orders", given="mine\n")
    assert (refused.code, refused.output) == (3, "")
    message, hint = refused.told.splitlines()
    assert message == (
        f"error: the journal {journal} cannot be used: {segment} is damaged at byte 0, record 0:"
        " the header of the segment is not whole"
    )
    assert hint.startswith("hint: move that folder away and push again;")
    journal.rename(tmp_path / "journal")
    run.do("topic", "create", "journaled")
    assert (
        run.do("produce", "journaled", given="mine\n").output == "1 event acknowledged at journaled-0 0\n"
    )
    require_some(run)


def test_a_receipt_with_one_byte_changed(run: Console, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    run.do("receipt", "export", "orders", 7, "--out", good)
    text = good.read_text(encoding="ascii")
    bad.write_text(text.replace('"sequence": 7', '"sequence": 8'), encoding="ascii")
    refused = run("receipt", "verify", bad)
    assert (refused.code, refused.output) == (1, "")
    assert refused.told == (
        f"error: {bad} proves nothing: the facts in the file differ from those in its proof\n"
    )
    at = text.index('"proof": "') + 200
    bad.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :], encoding="ascii")
    refused = run("receipt", "verify", bad, "--json")
    assert refused.code == 1
    assert json.loads(refused.output)["holds"] is False
    assert refused.told.startswith(f"error: {bad} proves nothing: ")
    assert run.do("receipt", "verify", good).lines()[:2] == ["the receipt holds", "  event     event 7"]
    missing = run("receipt", "verify", good, "--genesis", tmp_path / "none.json")
    assert (missing.code, missing.told) == (
        2,
        (
            f"error: there is no file {tmp_path / 'none.json'}\n"
            "hint: name the chain's genesis with --genesis FILE\n"
        ),
    )


def test_an_unknown_key(run: Console) -> None:
    refused = run("produce", "orders", "--as", "mallory", given="mine\n")
    assert (refused.code, refused.output, refused.told) == (
        2,
        "",
        (
            f"error: {run.data} has no key for 'mallory'\n"
            "hint: it has admin, consumer, producer; veristream kabis client add NAME adds one\n"
        ),
    )
    save_key(run.data / "keys" / "mallory", make_key(bytes(SEED_BYTES)))
    refused = run("produce", "orders", "--as", "mallory", given="mine\n")
    (run.data / "keys" / "mallory").unlink()
    assert (refused.code, refused.output, refused.told) == (
        2,
        "",
        (
            "error: the validators refuse this client: "
            "'mallory' is not registered with this key as producer\n"
            "hint: an admin registers a new key; open the client again with it\n"
        ),
    )
    require_all(run)


def test_two_producers_of_one_name(run: Console) -> None:
    with Access(ClusterFolder(run.data)).producer() as producer:
        producer.push(Record("orders", b"mine")).result(60)
        refused = run("produce", "orders", given="theirs\n")
    assert (refused.code, refused.output) == (3, "")
    assert refused.told.startswith(
        f"error: another producer is running as producer: {run.data}/journals/producer "
    )
    run.do("client", "add", "second")
    with Access(ClusterFolder(run.data)).producer():
        assert run.do("produce", "orders", "--as", "second", given="theirs\n").output == (
            f"1 event acknowledged at orders-0 {COUNT + 1}\n"
        )
    require_all(run, COUNT + 2)


def test_a_consumer_below_retention(run: Console) -> None:
    run.do("topic", "create", "short")
    run.do("produce", "short", given="a\nb\nc\n")
    assert (
        run.do("topic", "trim", "short", "--before", 2).output == "short-0: events before 2 are discarded\n"
    )
    refused = run("consume", "short", "--partition", 0, "--from", 1, "--max", 1)
    assert (refused.code, refused.output, refused.told) == (
        2,
        "",
        "error: short-0: index 1 is below the low-water mark 2\nhint: seek to 2, or to the beginning\n",
    )
    assert run.do("consume", "short", "--from-beginning", "--max", 1, "--timeout", 30).output == "c\n"
    refused = run("receipt", "export", "short", 1)
    assert (refused.code, refused.output, refused.told.splitlines()[0]) == (
        2,
        "",
        "error: short-0: index 1 is below the low-water mark 2",
    )
    refused = run("topic", "trim", "short", "--before", 9)
    assert (refused.code, refused.output) == (2, "")
    assert refused.told.startswith("error: the ledger refuses it: ")
    assert run.do("consume", "short", "--partition", 0, "--from", 2, "--max", 1).output == "c\n"


def find_ports(count: int) -> int:
    """The first of so many ports in a row on which nobody listens."""
    while True:
        first = random.choice(find_range()[:-count])
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first


def test_a_port_in_use(tmp_path: Path) -> None:
    with opened(tmp_path / "other") as other, socket.socket() as taken:
        port = find_ports(7)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        refused = other("up", "--detach", "--port", port)
        assert (refused.code, refused.output, refused.told) == (
            3,
            "",
            (
                f"error: validator-1 did not start: cannot listen at 127.0.0.1:{port}:"
                " Address already in use\n"
                "hint: stop the program that listens there, or move the parties with --port 0\n"
            ),
        )
        assert other.cluster.find() == {}


@pytest.mark.long
def test_a_port_that_somebody_took_meanwhile(run: Console) -> None:
    run.do("down")
    status = run("status")
    assert status.code == 3
    assert "progress of consumer groups unknown: too few validators answered in time" in status.lines()
    party = ClusterFolder(run.data).genesis().storage[1]
    with socket.create_server(("127.0.0.1", int(party.address.rpartition(":")[2]))):
        refused = run("up", "--detach")
        assert (refused.code, refused.output, refused.told.splitlines()[0]) == (
            3,
            "",
            f"error: {party.name} did not start: cannot listen at {party.address}: Address already in use",
        )
        assert run.cluster.find() == {}
    run.do("up", "--detach")
    require_some(run)


def test_a_message_over_the_size_limit(run: Console) -> None:
    run.do("topic", "create", "large")
    refused = run("produce", "large", given=b"small\n" + b"x" * LEAF_BYTES_MAX + b"\nnever read\n")
    assert refused.code == 2
    assert refused.output == "1 event acknowledged at large-0 0\n"
    message, hint = refused.told.splitlines()
    assert re.fullmatch(rf"error: line 2: the event takes \d+ bytes, at most {LEAF_BYTES_MAX}", message)
    assert hint.startswith("hint: an event has at most 1048576 bytes")
    refused = run("produce", "large", given=b"x" * (3 * LEAF_BYTES_MAX))
    assert (refused.code, refused.output) == (2, "0 events acknowledged\n")
    assert refused.told.startswith(f"error: line 1: more than {2 * LEAF_BYTES_MAX} bytes\n")
    topics = json.loads(run.do("topic", "list", "--json").output)
    assert {"topic": "large", "validated": True, "partitions": [{"from": 0, "to": 1}]} in topics
    read = ("consume", "large", "--from-beginning", "--max", 1, "--timeout", 30)
    assert run.do(*read).output == "small\n"


def test_a_full_disk_ends_a_producer_with_a_message(run: Console) -> None:
    """Nothing is acknowledged that is not kept, and the same event can be pushed when there is room."""
    run.do("client", "add", "filler")
    run.do("produce", "orders", "--as", "filler", given="before\n")
    with file_size_limit(HEADER_BYTES + 500):
        full = run("produce", "orders", "--as", "filler", given="x" * 2000 + "\n")
    assert (full.code, full.lines()) == (3, ["0 events acknowledged"])
    message, hint = full.told.splitlines()
    assert message.startswith("error: the journal ") and "no room to write" in message
    assert hint.startswith("hint: make room, then open the producer again")
    assert run.do("produce", "orders", "--as", "filler", given="after\n").output.startswith("1 event ")


def test_what_is_asked_wrongly(run: Console, tmp_path: Path) -> None:
    nowhere = Console(tmp_path / "nowhere")
    absent = f"error: there is no cluster in {nowhere.data}"
    for words in (("status",), ("down",), ("topic", "list"), ("consume", "orders"), ("produce", "orders")):
        refused = nowhere(*words)
        assert (refused.code, refused.told.splitlines()[0]) == (2, absent)
    parties = f"error: the cluster in {run.data} has 4 validators and 2F+1 storage parties"
    first_lines = {
        ("up", "--detach"): f"error: the cluster in {run.data} is already up",
        ("up", "--parties", "7"): parties,
        ("up", "--port", "0"): f"error: parties of {run.data} are running and cannot change ports",
        ("produce", "nothing"): "error: nothing: no such topic",
        ("consume", "nothing"): "error: nothing: no such topic",
        ("consume", "orders", "--partition", "1"): (
            "error: orders: no partition 1; it has 1, numbered from 0"
        ),
        ("consume", "orders", "--from", "1"): "error: --from needs a partition",
        ("consume", "orders", "--nearest", "storage-9"): "error: there is no storage party 'storage-9'",
        ("consume", "orders", "--nearest", "storage-1", "--no-validate"): (
            "error: --nearest cannot be combined with --no-validate"
        ),
        ("topic", "create", "orders"): "error: topic orders already exists",
        ("topic", "set", "nothing"): "error: nothing: no such topic",
        ("receipt", "export", "orders", "100000"): "error: orders-0 has no event 100000",
        ("client", "add", "a/b"): "error: 'a/b' is not a valid name",
    }
    for words, line in first_lines.items():
        refused = run(*words)
        assert (refused.code, refused.told.splitlines()[0]) == (2, line), words
    refused = nowhere("up", "--parties", 5)
    assert (refused.code, refused.told.splitlines()[0]) == (
        2,
        "error: the number of validators must be 3F + 1, not 5",
    )
    for fault, line in {
        "storage-9=alter": "error: there is no party 'storage-9'",
        "storage-1=silent": "error: storage-1 has no fault 'silent'",
        "storage-1": "error: --fault storage-1 names no fault",
    }.items():
        with opened(tmp_path / "faulty") as faulty:
            refused = faulty("up", "--detach", "--fault", fault)
            assert (refused.code, refused.told.splitlines()[0]) == (2, line)
