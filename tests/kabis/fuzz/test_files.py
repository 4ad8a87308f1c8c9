"""Files that others write, or that a disk spoils: each is read, or refused in words that name it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.kabis.chain import (
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    key_of,
    make_genesis,
    submitted,
)
from tests.kabis.fuzz.mutation import flip, fuzzed, measure_memory, mutated
from tests.kabis.moving import Moving
from veristream.cli.kabis.work.text import read_event
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.changes import Removal, Replacement
from veristream.kabis.client.known_members import load_members, note_members
from veristream.kabis.client.producer.journal import Journal
from veristream.kabis.cluster import processes, status
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.storage_process import Options, open_core
from veristream.kabis.kafka.settings import load_settings
from veristream.kabis.ledger.event_receipts import (
    ReceiptError,
    export_receipt,
    make_receipt,
    verify_receipt,
)
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.log.disk.log import LogRecord as LogRecord
from veristream.kabis.log.disk.opening import segment_paths
from veristream.kabis.log.disk.repair import repair
from veristream.kabis.log.disk.segment import HEADER_BYTES, Damaged
from veristream.kabis.protocol import genesis, keys, seal
from veristream.kabis.protocol.members import Party
from veristream.kabis.storage import late_clients as clients
from veristream.kabis.wire.endpoints import Address

WEIRD: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 10**30, float("inf"), float("nan")),
    *("", "x" * 5000, "\ud800", "\0", "00", [], {}, [[]], {"": {}}),
)
"""What nobody expects in the place of a value."""
DEEP = b"[" * 100_000
JSON_PER_BYTE_MAX = 64
"""An empty object takes three bytes of a file, and 64 of memory."""


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where everything in a JSON value is, itself first."""
    yield path
    pairs = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in pairs:
        yield from paths_of(inner, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The JSON value with another in one place."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: put(inner, rest, new) if key == first else inner for key, inner in value.items()}
    return [put(inner, rest, new) if key == first else inner for key, inner in enumerate(value)]


def spoilt(text: bytes) -> st.SearchStrategy[bytes]:
    """A JSON file with something wrong in its bytes, or in what it says."""
    value = json.loads(text)
    replaced = st.builds(
        lambda path, new: json.dumps(put(value, path, new)).encode(),
        st.sampled_from(list(paths_of(value))),
        st.sampled_from(WEIRD),
    )
    return st.one_of(replaced, replaced, mutated(st.just(text)), st.just(DEEP), st.binary(max_size=40))


def private(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def refusal(read: Callable[[], object], errors: tuple[type[Exception], ...]) -> str | None:
    """In which words something is refused; None if it is read."""
    try:
        read()
    except errors as error:
        return error.message if isinstance(error, READ) else str(error)
    return None


# Each file with what reads it; what it may raise names the file.

GENESIS = make_genesis()


def receipt_file() -> bytes:
    chain: Chain = chain_with_topic()
    batch = batch_of(b"a", b"b")
    chain.block(submitted(batch))
    proof = chain.ledger.prove_key("alice", 0)
    assert proof is not None
    block = chain.blocks[-1]
    return export_receipt(
        make_receipt(batch, 1, block, certificate_for(block), (proof, chain.certified(2)))
    )


def topic_keys_file(folder: Path) -> bytes:
    seal.save_topic_keys(folder / "made", seal.TopicKeys("orders", 1, {0: bytes(32), 1: bytes(32)}))
    return (folder / "made").read_bytes()


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON file: valid bytes, what reads it from a path, and what that may raise."""

    valid: Callable[[Path], bytes]
    read: Callable[[Path], object]
    errors: tuple[type[Exception], ...]


def to_json(value: object) -> Callable[[Path], bytes]:
    return lambda _folder: json.dumps(value).encode()


def members_file(folder: Path) -> bytes:
    chain = Moving(GENESIS, key_of("admin"), map(key_of, ("v0", "v1", "v2", "v3", "v9")))
    chain.change(Replacement("v1", Party("v9", key_of("v9").public, "v9:1")), 3)
    chain.reach(3)
    chain.change(Removal(("v0", "v2", "v3")), 9)
    note_members(folder / "made", chain.ledger)
    return (folder / "made").read_bytes()


def read_suspicions(path: Path) -> object:
    (path.parent / "suspicions").mkdir(exist_ok=True)
    (path.parent / "suspicions" / "consumer.json").write_bytes(path.read_bytes())
    return list(status.read_suspicions(ClusterFolder(path.parent)))


def read_note(path: Path, name: str, find: Callable[[Path], object]) -> object:
    (path.parent / name).write_bytes(path.read_bytes())
    return find(path.parent)


READ = (ModelError, EnvironmentFailure)
FILES: dict[str, JsonFile] = {
    "genesis": JsonFile(lambda _: genesis.to_json(GENESIS).encode(), genesis.load_genesis, READ),
    "receipt": JsonFile(
        lambda _: receipt_file(), lambda path: verify_receipt(path.read_bytes(), GENESIS), (ReceiptError,)
    ),
    "members": JsonFile(members_file, lambda path: load_members(path, GENESIS), READ),
    "topic keys": JsonFile(topic_keys_file, seal.load_topic_keys, READ),
    "clients": JsonFile(to_json([{"name": "a", "public": "00" * 32}]), clients.load_clients, READ),
    "suspicions": JsonFile(to_json({"storage-1": 4}), read_suspicions, ()),
    "process": JsonFile(
        to_json({"name": "v", "pid": 1 << 30, "command": ["a"]}),
        lambda path: read_note(path, "process.json", processes.find),
        (),
    ),
    "ready": JsonFile(
        to_json({"party": "s", "address": "127.0.0.1:1", "pid": 7}),
        lambda path: read_note(path, "ready", processes.read_ready),
        (),
    ),
    "event": JsonFile(
        to_json({"value": "two pears", "key": "anna", "headers": {"a": "b"}, "partition": 0}),
        lambda path: read_event(path.read_bytes(), "orders", str(path)),
        (ModelError,),
    ),
}
"""Every JSON file that is read, and a line that `produce` takes."""


@pytest.mark.parametrize("name", FILES)
@fuzzed(data=st.data())
def test_a_json_file_is_read_or_refused(name: str, data: st.DataObject, tmp_path: Path) -> None:
    file, path = FILES[name], tmp_path / "file"
    (tmp_path / "made").unlink(missing_ok=True)
    text = file.valid(tmp_path)
    assert file.read(private(path, text)) is not None or name == "process"
    private(path, data.draw(spoilt(text)))
    refused = refusal(lambda: file.read(path), file.errors)
    assert refused is None or name == "receipt" or str(path) in refused


test_a_json_file_is_read_or_refused_at_length = pytest.mark.parametrize("name", FILES)(
    test_a_json_file_is_read_or_refused.at_length
)


@pytest.mark.parametrize("name", FILES)
def test_a_json_file_may_be_deep_and_takes_no_more_memory_than_its_size_says(
    name: str, tmp_path: Path
) -> None:
    def read(data: bytes) -> None:
        with suppress(*FILES[name].errors):
            FILES[name].read(private(tmp_path / "file", data))

    nested = b'{"a":' * 50_000
    many = b"[" + b"{}," * 30_000 + b"{}]"
    assert measure_memory(read, [DEEP, nested, many], per_byte=JSON_PER_BYTE_MAX) == 0


@fuzzed(data=mutated(st.just(b"kabis/1/secret-key\n" + b"ab" * 32 + b"\n")) | st.binary(max_size=100))
def test_a_key_file_is_read_or_refused(data: bytes, tmp_path: Path) -> None:
    path = private(tmp_path / "key", data)
    refused = refusal(lambda: keys.load_key(path), (ModelError,))
    assert refused is None or refused == f"{path} is not a key file"


test_a_key_file_is_read_or_refused_at_length = test_a_key_file_is_read_or_refused.at_length


PROPERTIES = b"# a comment\nbootstrap.servers=localhost:9092\nsasl.username=anna\n"


@fuzzed(data=mutated(st.just(PROPERTIES)) | st.binary(max_size=100))
def test_kafkas_properties_are_read_or_refused(data: bytes, tmp_path: Path) -> None:
    path = private(tmp_path / "kafka.properties", data)
    refused = refusal(lambda: load_settings(path), READ)
    assert refused is None or str(path) in refused or "is not the address of a Kafka broker" in refused


test_kafkas_properties_are_read_or_refused_at_length = test_kafkas_properties_are_read_or_refused.at_length


# Logs.

OPTIONS = LogOptions(4096, Flush.ALWAYS)
PAYLOADS = [f"record {number}".encode() * 20 for number in range(60)]


def make_log(folder: Path) -> list[Path]:
    """A log of a few full segments and their indexes."""
    with Log(folder, OPTIONS) as log:
        for payload in PAYLOADS:
            log.append(payload)
        log.sync(now=True)
    return sorted([*folder.glob("*.segment"), *folder.glob("*.index")])


def read_all(folder: Path) -> dict[int, bytes]:
    with Log(folder, OPTIONS) as log:
        return {entry.position: entry.payload for entry in log.records() if isinstance(entry, LogRecord)}


@fuzzed(data=st.data())
def test_a_spoilt_log_is_whole_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Never is another record given out than the one that was written there, not even after repair."""
    folder = tmp_path_factory.mktemp("log")
    path = data.draw(st.sampled_from(make_log(folder)))
    path.write_bytes(data.draw(mutated(st.just(path.read_bytes()))))
    written = dict(enumerate(PAYLOADS))
    refused = refusal(lambda: read_all(folder), (EnvironmentFailure,))
    assert refused is None or str(folder) in refused
    if refused is not None and "of version" in refused:
        return  # `repair` leaves one alone that another program wrote
    if refused is not None:
        repair(folder)
    found = read_all(folder)
    assert found.items() <= written.items()
    lost = written.keys() - found.keys()
    assert not lost or refused is not None or path == segment_paths(folder)[-1]


test_a_spoilt_log_is_whole_or_refused_at_length = test_a_spoilt_log_is_whole_or_refused.at_length


@fuzzed(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_durable_record_is_noticed(
    at: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    make_log(folder)
    path = segment_paths(folder)[0]
    whole = path.read_bytes()
    path.write_bytes(flip(whole, HEADER_BYTES + at % (len(whole) - HEADER_BYTES), bit))
    with pytest.raises(Damaged):
        read_all(folder)


test_a_flipped_bit_is_noticed_at_length = test_a_flipped_bit_in_a_durable_record_is_noticed.at_length


@fuzzed(data=st.data())
def test_a_spoilt_journal_is_read_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    batches = [batch_of(b"a", sequence=number) for number in range(4)]
    journal.write([(batch.digest(), batch.encode()) for batch in batches])
    journal.close()
    (path,) = segment_paths(folder)
    path.write_bytes(data.draw(mutated(st.just(path.read_bytes()))))
    refused = refusal(lambda: read_journal(folder), (EnvironmentFailure,))
    assert refused is None or str(folder) in refused
    if refused is None:
        assert set(read_journal(folder)) <= {batch.encode() for batch in batches}


test_a_spoilt_journal_is_read_or_refused_at_length = test_a_spoilt_journal_is_read_or_refused.at_length


def read_journal(folder: Path) -> tuple[bytes, ...]:
    journal = Journal(folder)
    journal.close()
    return journal.batches


def test_a_journal_of_something_else_is_refused(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        log.append(b"this is no batch")
    with pytest.raises(EnvironmentFailure, match="cannot be used: not an encoded batch"):
        Journal(tmp_path)
    with Log(tmp_path) as log:  # the folder was let go of
        assert log.end == 1


def test_a_party_whose_log_is_anothers_says_so(tmp_path: Path) -> None:
    options = Options(tmp_path, GENESIS, "s0", key_of("s0"), Address("127.0.0.1", 0), LogOptions())
    with Log(tmp_path) as log:
        assert open_core(options, log).lost_count == 0
        log.append(b"this is no entry")
        with pytest.raises(EnvironmentFailure) as caught:
            open_core(options, log)
    assert str(tmp_path) in caught.value.message
    assert caught.value.message.endswith("has a foreign record: not an encoded storage-checkpoint")
