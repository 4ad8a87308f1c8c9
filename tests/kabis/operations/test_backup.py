"""Backup and restore: what is copied, what is refused, and a validator that does not vote twice."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kabis.session.console import Console, opened
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster.rejoining import is_restored, mark_restored, read_until
from veristream.kabis.operations.backup import hash_file

pytestmark = pytest.mark.long

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A running cluster of one validator with some events."""
    with opened(tmp_path_factory.mktemp("used") / "cluster") as console:
        console.do("up", "--detach", "--parties", "1")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="one\ntwo\n")
        yield console


def consume(console: Console, count: int) -> list[str]:
    return console.do("consume", "orders", "--from-beginning", "--max", count).output.splitlines()


def test_a_running_cluster_is_copied_and_restored(used: Console, tmp_path: Path) -> None:
    """All later events are given up, since its only validator is restored."""
    archive = tmp_path / "monday.tar"
    shown = used.do("backup", archive, "--with-keys").output
    assert f"sha256 {hash_file(archive)}\n" in shown
    assert archive.stat().st_mode & 0o777 == 0o600
    refused = Console(tmp_path / "new")("restore", archive)
    assert (refused.code, "the backup has all validators" in refused.told) == (2, True)
    assert not (tmp_path / "new").exists()
    with opened(tmp_path / "new") as again:
        again.do("restore", archive, "--give-up-later-blocks")
        again.do("up", "--detach", "--port", "0")
        assert consume(again, 2) == consume(used, 2)
        assert json.loads(again.do("doctor", "--json").output)["findings"] == []


def test_secrets_are_left_out_unless_asked_for(used: Console, tmp_path: Path) -> None:
    assert "without secret keys" in used.do("backup", tmp_path / "a.tar").output
    assert "without" not in used.do("backup", tmp_path / "b.tar", "--with-keys").output
    seeds = [
        path.read_text().split()[1] for path in [*used.data.glob("keys/*"), *used.data.glob("*-1/key")]
    ]
    assert len(seeds) == 5
    without, with_keys = (tmp_path / "a.tar").read_bytes(), (tmp_path / "b.tar").read_bytes()
    assert not any(seed.encode() in without for seed in seeds)
    assert all(seed.encode() in with_keys for seed in seeds)


def test_what_backup_refuses(used: Console, tmp_path: Path) -> None:
    (tmp_path / "there.tar").write_bytes(b"precious")
    assert used("backup", tmp_path / "there.tar").code == 2
    assert (tmp_path / "there.tar").read_bytes() == b"precious"
    refused = used("backup", tmp_path / "a.tar", "--party", "storage-9")
    assert (refused.code, "there is no party 'storage-9'" in refused.told) == (2, True)
    assert Console(tmp_path / "nowhere")("backup", tmp_path / "a.tar").code == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "there.tar"]


def rewrite(path: Path, change: Callable[[dict[str, bytes]], object]) -> None:
    """Changes the members of an archive."""
    with tarfile.open(path) as tar:
        members = {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def flip(members: dict[str, bytes]) -> None:
    name = next(name for name in members if name.startswith("storage-1/log/"))
    members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])


DAMAGES: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "flipped": (flip, "does not have its digest"),
    "missing": (lambda members: members.pop("genesis.json"), "genesis.json is missing"),
    "added": (
        lambda members: members.update({"keys/mallory": b"x"}),
        "keys/mallory is not in the manifest",
    ),
    "outside": (lambda members: members.update({"../outside": b"x"}), "'../outside' is not a plain file"),
    "absolute": (
        lambda members: members.update({"/tmp/outside": b"x"}),
        "'/tmp/outside' is not a plain file",
    ),
    "no manifest": (lambda members: members.pop("manifest.json"), "it has no readable manifest"),
    "a bad manifest": (
        lambda members: members.update({"manifest.json": b"[]"}),
        "it has no readable manifest",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused_as_a_whole(used: Console, tmp_path: Path, damage: str) -> None:
    archive, target = tmp_path / "a.tar", tmp_path / "deep" / "new"
    used.do("backup", archive)
    change, message = DAMAGES[damage]
    rewrite(archive, change)
    refused = Console(target)("restore", archive, "--give-up-later-blocks")
    assert (refused.code, message in refused.told) == (2, True)
    assert not any(path.is_file() for path in (tmp_path / "deep").rglob("*"))
    assert not (tmp_path / "deep" / "outside").exists()


def test_a_cut_archive_and_none_are_refused(used: Console, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    used.do("backup", archive)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    assert Console(tmp_path / "new")("restore", archive).code == 2
    archive.write_bytes(b"no archive")
    assert Console(tmp_path / "new")("restore", archive).code == 2
    assert Console(tmp_path / "new")("restore", tmp_path / "nowhere").code == 3
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten_and_another_chain_is_refused(used: Console, tmp_path: Path) -> None:
    archive, other = tmp_path / "a.tar", Console(tmp_path / "other")
    used.do("backup", archive)
    other.cluster.create(1)
    refused = other("restore", archive, "--give-up-later-blocks")
    assert (refused.code, "is not empty" in refused.told) == (2, True)
    refused = other("restore", archive, "--party", "storage-1")
    assert (refused.code, "is a backup of another chain" in refused.told) == (2, True)
    refused = used("restore", archive, "--party", "storage-1")
    assert (refused.code, "storage-1 is running" in refused.told) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "other"]


def test_a_mark_that_cannot_be_read_keeps_a_validator_from_voting(tmp_path: Path) -> None:
    assert not is_restored(tmp_path)
    mark_restored(tmp_path)
    assert is_restored(tmp_path)
    assert read_until(tmp_path) is None
    (tmp_path / "restored.json").write_text("{", encoding="utf-8")
    with pytest.raises(EnvironmentFailure, match="keeps a restored validator from voting twice"):
        read_until(tmp_path)
    (tmp_path / "restored.json").write_text('{"until": "x"}', encoding="utf-8")
    with pytest.raises(ModelError):
        read_until(tmp_path)


def heights(console: Console) -> dict[str, int | None]:
    """The heights of validators; None of those that do not answer."""
    parties = json.loads(console("status", "--json").output)["parties"]
    return {each["name"]: each["height"] for each in parties if each["role"] == "validator"}


def test_a_restored_validator_rejoins_above_its_lost_votes(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("backup", tmp_path / "a.tar", "--party", "validator-1")
        console.do("produce", "orders", given="after the backup\n")
        lost = heights(console)["validator-2"]
        assert lost is not None
        console.cluster.stop(["validator-1"])
        folder = console.data / "validator-1"
        refused = console("restore", tmp_path / "a.tar", "--party", "validator-1")
        assert (refused.code, "is not empty: it has records, blocks" in refused.told) == (2, True)
        for name in ("blocks", "records"):
            shutil.rmtree(folder / name)
        console.do("restore", tmp_path / "a.tar", "--party", "validator-1")
        assert is_restored(folder)
        console.do("up", "--detach")
        console.look(lambda seen: read_until(folder) is not None, "doctor")
        assert read_until(folder) == lost + 2
        assert heights(console)["validator-1"] is None
        assert "validator-1 was restored from a backup and waits" in console("doctor").output
        deadline_s = time.monotonic() + PATIENCE_S
        count = 0
        while heights(console)["validator-1"] is None:
            assert time.monotonic() < deadline_s, "it did not rejoin"
            console.do("produce", "orders", given=f"event {count}\n")
            count += 1
        assert not is_restored(folder)
        assert (heights(console)["validator-1"] or 0) >= lost + 2
        console.cluster.stop(["validator-2"])  # so that the restored one is needed
        console.do("produce", "orders", given="with its votes\n")
        assert "nobody was caught" in console("status").output
        lines = consume(console, count + 2)
        assert any("after the backup" in line for line in lines)
        assert any("with its votes" in line for line in lines)
