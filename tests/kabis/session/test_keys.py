"""Keys and seals by the command line: who may push, who may read, how far readers are, what is let go."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.session.console import Console, Ended, opened
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.keys import load_key
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.endpoints import PeerRefusedError, RequestError
from veristream.kabis.wire.handshake import Identity, Role

pytestmark = pytest.mark.xdist_group("kabis-keys")

PATIENCE_S = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A cluster that is up, with a validated topic."""
    with opened(tmp_path_factory.mktemp("keys") / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        yield console


def alone(*words: object) -> tuple[int, str, str]:
    """A command that needs no cluster, and has no --data."""
    from typer.testing import CliRunner

    from veristream.cli.app import app

    done = CliRunner().invoke(app, ["kabis", *map(str, words)], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


# Seals.


def test_a_sealed_topic_is_read_by_who_has_its_keys(run: Console, tmp_path: Path) -> None:
    file = tmp_path / "secrets.keys"
    code, told, _ = alone("seal", "new", "secrets", file)
    assert (code, told.startswith(f"{file}: key 0 of secrets;")) == (0, True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    run.do("topic", "create", "secrets")
    run.do("produce", "secrets", "--seal", file, "--key", "anna-k", given="pear-wine\n")
    assert alone("seal", "rotate", file)[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    run.do("produce", "secrets", "--seal", file, "--key", "anna-k", given="plum-wine\n")
    read = ("consume", "secrets", "--from-beginning", "--timeout", PATIENCE_S)
    found = run.do(*read, "--max", 2, "--seal", file, "--json").objects()
    assert [(each["key"], each["value"]) for each in found] == [
        ("anna-k", "pear-wine"),
        ("anna-k", "plum-wine"),
    ]
    shown = run.do(*read, "--max", 2, "--json").objects()
    assert [each["key"] for each in shown] == [None, None]
    kept = [path for path in run.data.rglob("*") if path.is_file()]
    assert any(b"secrets" in path.read_bytes() for path in kept)
    for word in (b"pear-wine", b"plum-wine", b"anna-k"):
        assert not [path for path in kept if word in path.read_bytes()]


def test_other_keys_open_nothing(run: Console, tmp_path: Path) -> None:
    good, other = tmp_path / "good", tmp_path / "other"
    for file in (good, other):
        alone("seal", "new", "closed", file)
    run.do("topic", "create", "closed")
    run.do("produce", "closed", "--seal", good, given="a\n")
    read = ("consume", "closed", "--from-beginning", "--max", 1)
    assert run.do(*read, "--timeout", 2, "--seal", other).output == ""
    assert run.do(*read, "--timeout", PATIENCE_S, "--seal", good).output == "a\n"


def test_what_is_wrong_with_seals(run: Console, tmp_path: Path) -> None:
    file, open_file = tmp_path / "a.keys", tmp_path / "open.keys"
    alone("seal", "new", "a", file)
    open_file.write_bytes(file.read_bytes())
    open_file.chmod(0o644)
    assert alone("seal", "new", "a", file)[::2] == (
        2,
        f"error: {file} exists already\nhint: choose another name; keys are never overwritten\n",
    )
    for words, line in {
        ("produce", "orders", "--seal", file): f"error: {file} has the keys of a, not of orders",
        ("consume", "orders", "--seal", file): f"error: {file} has the keys of a, not of orders",
        (
            "consume",
            "orders",
            "--seal",
            open_file,
        ): f"error: others may read {open_file}, which holds a secret",
    }.items():
        refused = run(*words, given="x\n")
        assert (refused.code, refused.output, refused.told.splitlines()[0]) == (2, "", line)
    (file.parent / "junk").write_bytes(b"junk")
    (file.parent / "junk").chmod(0o600)
    code, _, told = alone("seal", "rotate", file.parent / "junk")
    assert (code, told.startswith(f"error: {file.parent / 'junk'} holds no topic keys: ")) == (2, True)
    assert file.read_bytes() == open_file.read_bytes()


# Keys.


def states(run: Console, name: str) -> list[str]:
    """What became of each key of a client."""
    listed = json.loads(run.do("key", "list", "--json").output)
    return [each["ending"] or "valid" for each in listed if each["client"] == name]


def ask_storage(
    run: Console,
    identity: Identity,
    ask: Callable[[StorageClient], Coroutine[Any, Any, object]],
    until: Callable[[object], bool],
) -> None:
    """Asks every storage party until it answers so, or was refused so; one that never does fails."""

    async def settle(client: StorageClient) -> None:
        while True:
            try:
                found = await ask(client)
            except (PeerRefusedError, RequestError, TimeoutError) as error:
                found = client.problem or error
            if until(found):
                return
            await asyncio.sleep(0.1)

    async def all_of_them() -> None:
        async with asyncio.timeout(PATIENCE_S):
            for party in ClusterFolder(run.data).genesis().storage:
                client = StorageClient(identity, party, 1.0)
                try:
                    await settle(client)
                finally:
                    await client.close()

    asyncio.run(all_of_them())


def identity_of(run: Console, name: str, key_epoch: int) -> Identity:
    folder = ClusterFolder(run.data)
    key = load_key(folder.key_path(name, key_epoch))
    return Identity(folder.genesis().chain_id, Role.PRODUCER, name, key)


def is_ended(found: object) -> bool:
    return isinstance(found, PeerRefusedError | RequestError) and "has ended" in str(found)


def test_a_key_is_replaced_and_the_old_one_is_let_in_nowhere(run: Console) -> None:
    run.do("client", "add", "anna")
    before = run.do("produce", "orders", "--as", "anna", given="one\n").output
    old = identity_of(run, "anna", 0)
    ask_storage(run, old, lambda client: client.status(), lambda found: not isinstance(found, Exception))
    told = run.do("key", "rotate", "anna").output
    assert told.startswith("anna: key 1, ") and told.endswith(f" in {run.data / 'keys-1' / 'anna'}\n")
    assert states(run, "anna") == ["replaced", "valid"]
    after = run.do("produce", "orders", "--as", "anna", given="two\n").output
    assert [line.split()[:3] for line in (before, after)] == [["1", "event", "acknowledged"]] * 2
    ask_storage(run, old, lambda client: client.status(), is_ended)
    text = run.do("key", "list").output
    assert text.splitlines()[0].split() == ["client", "number", "key", "since", "block", "state"]


def test_a_revoked_key_pushes_nothing_until_there_is_a_new_one(run: Console) -> None:
    run.do("client", "add", "berta")
    assert run.do("key", "revoke", "berta").output == (
        "berta: key 0 is revoked; veristream kabis key rotate berta registers a new one\n"
    )
    refused = run("produce", "orders", "--as", "berta", given="mine\n")
    assert (refused.code, refused.output, refused.told.splitlines()[0]) == (
        2,
        "",
        "error: the validators refuse this client: the key of berta, epoch 0, is revoked",
    )
    ask_storage(run, identity_of(run, "berta", 0), lambda client: client.status(), is_ended)
    again = run("key", "revoke", "berta")
    assert (again.code, again.told.splitlines()[0].partition(", block")[0]) == (
        2,
        "error: the key of berta is no longer valid: revoked",
    )
    run.do("key", "rotate", "berta")
    assert states(run, "berta") == ["revoked", "valid"]
    assert run.do("produce", "orders", "--as", "berta", given="mine\n").output.startswith("1 event ack")


def test_a_rotation_that_was_interrupted_is_finished(run: Console) -> None:
    """The ledger has the new key, and the folder did not get to it."""
    run.do("client", "add", "clara")
    folder = ClusterFolder(run.data)
    drawn = folder.draw_key("clara")
    run.do("key", "rotate", "clara")
    assert load_key(folder.key_path("clara", 1)).public == drawn.public
    (folder.path / "keys-next" / "clara").write_bytes(folder.key_path("clara", 1).read_bytes())
    (folder.path / "keys-next" / "clara").chmod(0o600)
    folder.key_path("clara", 1).unlink()
    refused = run("produce", "orders", "--as", "clara", given="mine\n")
    assert refused.told.splitlines()[0] == (
        "error: the validators refuse this client: the key of clara, epoch 0, is replaced by a newer one"
    )
    run.do("key", "rotate", "clara")
    assert states(run, "clara") == ["replaced", "valid"]
    assert folder.key("clara").public == drawn.public
    run.do("produce", "orders", "--as", "clara", given="mine\n")


def test_the_admins_key_is_replaced_and_never_revoked(run: Console) -> None:
    refused = run("key", "revoke", "admin")
    assert (refused.code, refused.told) == (
        2,
        (
            "error: the admin's key cannot be revoked: no one else can register keys\n"
            "hint: veristream kabis key rotate admin replaces it\n"
        ),
    )
    run.do("key", "rotate", "admin")
    assert states(run, "admin") == ["replaced", "valid"]
    run.do("topic", "create", "afterwards")
    run.do("client", "add", "dora")
    assert states(run, "dora") == ["valid"]


@pytest.mark.parametrize("word", ["rotate", "revoke"])
def test_nobody_has_no_key(run: Console, word: str) -> None:
    refused = run("key", word, "nobody")
    assert refused.code == 2
    assert refused.told.splitlines()[0] in (
        f"error: {run.data} has no key for 'nobody'",
        "error: nobody is not registered",
    )


# Groups.


Lag = tuple[str, int, int, int, int]


def billing(seen: Ended) -> list[Lag] | None:
    """How far the group is in each partition, as the status has it; None if it was not known in time."""
    listed = json.loads(seen.output)["groups"]
    return listed and [
        (each["topic"], each["partition"], each["committed"], each["end"], each["lag"])
        for each in listed
        if each["group"] == "billing"
    ]


def require_billing(run: Console, *expected: Lag) -> None:
    seen = run.look(lambda seen: billing(seen) == [*expected], "status", "--json")
    assert billing(seen) == [*expected]


def test_status_shows_how_far_groups_are(run: Console) -> None:
    run.do("topic", "create", "bills", "--partitions", 2)
    for partition, count in ((0, 5), (1, 3)):
        lines = "".join(f"bill {number}\n" for number in range(count))
        run.do("produce", "bills", "--partition", partition, given=lines)
    require_billing(run)
    read = ("consume", "bills", "--group", "billing", "--from-beginning", "--timeout", PATIENCE_S)
    assert len(run.do(*read, "--max", 8).lines()) == 8
    require_billing(run, ("bills", 0, 5, 5, 0), ("bills", 1, 3, 3, 0))
    run.do("produce", "bills", "--partition", 1, given="bill 3\nbill 4\n")
    require_billing(run, ("bills", 0, 5, 5, 0), ("bills", 1, 3, 5, 2))
    seen = run.look(lambda seen: " bills-1 " in seen.output, "status")
    (line,) = [line.split() for line in seen.lines() if "bills-1" in line]
    assert line == ["billing", "bills-1", "nobody", "3", "5", "2"]


# Marks.


@pytest.mark.long
def test_storage_parties_let_go_of_what_the_ledger_let_go(run: Console) -> None:
    run.do("topic", "create", "short")
    for value in ("a", "b", "c"):
        run.do("produce", "short", given=f"{value}\n")
    run.do("topic", "trim", "short", "--before", 2)
    access = Access(ClusterFolder(run.data))
    stream = StreamName("short", 0, "producer", 0)
    ask_storage(
        run,
        access.identity("producer", Role.PRODUCER),
        lambda client: client.fetch_range(stream, 0),
        lambda found: found == Below(2),
    )
    assert run.do("consume", "short", "--from-beginning", "--max", 1, "--timeout", 30).output == "c\n"
