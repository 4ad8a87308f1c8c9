"""Members that change by the command line: on a cluster that runs, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.session.console import Console, Ended, opened
from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.client.changes import Rotation
from veristream.kabis.cluster import folder
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import KEY, NEXT_KEY, ClusterFolder
from veristream.kabis.operations.membership import Ordered, Wish, order_change
from veristream.kabis.protocol.keys import load_key
from veristream.kabis.protocol.members import MemberRole, Members

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("kabis-members")]

PATIENCE_S = 60


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A cluster that is up, with a validated topic and an event."""
    with opened(tmp_path_factory.mktemp("members") / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="one\n")
        yield console


def listed(run: Console) -> Any:
    return json.loads(run.do("member", "list", "--json").output)


def names(members: Any, role: str = "validators") -> list[str]:
    return [each["name"] for each in members[role]]


def consume(run: Console, count: int) -> list[str]:
    read = ("consume", "orders", "--from-beginning", "--timeout", PATIENCE_S, "--max", count)
    return sorted(run.do(*read).lines())


def refuse(run: Console, *words: object) -> str:
    """The error of a command that must be refused, and change nothing."""
    before = listed(run)["in_force"]
    folders = sorted(path.name for path in run.data.iterdir())
    ended = run("member", *words)
    assert (ended.code, ended.output) == (2, ""), ended
    assert listed(run)["in_force"] == before
    assert sorted(path.name for path in run.data.iterdir()) == folders
    return ended.told.splitlines()[0].removeprefix("error: ")


def test_the_founding_members_are_listed(run: Console) -> None:
    found = listed(run)
    assert (found["pending"], found["former"]) == (None, [])
    assert found["in_force"]["from"] == 0
    assert names(found["in_force"]) == [f"validator-{number}" for number in range(1, 5)]
    lines = run.do("member", "list").lines()
    assert lines[0].endswith(": 4 validators and 3 storage parties, F = 1")
    assert lines[2].split() == ["member", "role", "address", "key", "from", "block", "state"]
    assert not (run.data / "members.json").exists()


def test_what_is_refused(run: Console) -> None:
    assert (
        refuse(run, "replace", "validator-9", "validator-5") == "'validator-9' is not a member of the chain"
    )
    assert refuse(run, "replace", "validator-1", "validator-2") == "there is a member validator-2 already"
    assert refuse(run, "add", "validator-5") == "the number of validators must be 3F + 1, not 5"
    assert refuse(run, "remove", "storage-1") == (
        "4 validators need at least 2F + 1 storage parties, that is 3, not 2"
    )
    assert refuse(run, "add", "validator-5", "validator-6", "validator-7") == (
        "7 validators need at least 2F + 1 storage parties, that is 5, not 3"
    )
    assert refuse(run, "add", "berlin") == "the name 'berlin' does not say what the party does"
    assert refuse(run, "replace", "storage-1", "../x") == "'../x' is not a valid name"
    assert refuse(run, "rotate", "nobody") == "'nobody' is not a member of the chain"
    public, signature = "ab" * 32, "cd" * 64
    offer = ("--public", public, "--possession", signature, "--address", "10.0.0.5:4001")
    assert refuse(run, "replace", "validator-1", "validator-5", *offer) == (
        "--possession of validator-5 does not prove that it has the key of --public"
    )
    assert refuse(run, "add", "storage-4", "storage-5", *offer) == "--public is given 1 times for 2 names"
    assert refuse(run, "add", "storage-4", "--public", "x", "--possession", "y", "--address", "a:1") == (
        "--public is not 32 bytes in hexadecimal: 'x'"
    )
    assert refuse(run, "add", "storage-4", *offer[:-1], "nowhere") == "--address nowhere is not HOST:PORT"


def test_a_validator_is_replaced(run: Console) -> None:
    told = run.do("member", "replace", "validator-2", "validator-5").lines()
    assert told[0].startswith("ordered: 4 validators and 3 storage parties, F = 1, from block ")
    assert told[1:] == ["in force", "validator-2 left; its folder is kept"]
    found = listed(run)
    assert names(found["in_force"]) == ["validator-1", "validator-5", "validator-3", "validator-4"]
    assert (found["pending"], names(found["former"][0])[1]) == (None, "validator-2")
    run.do("produce", "orders", given="two\n")
    assert consume(run, 2) == ["one", "two"]
    running = run.cluster.find()
    assert "validator-5" in running
    assert "validator-2" not in running
    assert (run.data / "validator-2" / "blocks").is_dir()
    seen = run.look(
        lambda seen: [each["answers"] for each in members_of(seen)] == [True] * 7, "status", "--json"
    )
    assert [each["name"] for each in members_of(seen)] == [
        *("validator-1", "validator-3", "validator-4", "validator-5"),
        *("storage-1", "storage-2", "storage-3"),
    ]
    assert errors_of(run) == []


def members_of(seen: Ended) -> list[Any]:
    """The parties in force, as the status has them."""
    parties = json.loads(seen.output)["parties"]
    return [each for each in parties if each["membership"] == "in force"]


def errors_of(run: Console) -> list[str]:
    findings = json.loads(run("doctor", "--json").output)["findings"]
    return [each["what"] for each in findings if each["severity"] == "error"]


def test_the_key_of_a_validator_is_replaced(run: Console) -> None:
    path = run.data / "validator-3" / KEY
    before = load_key(path).public
    told = run.do("member", "rotate", "validator-3").lines()
    assert told[1:] == ["in force"]
    public = listed(run)["in_force"]["validators"][2]["public"]
    run.look(lambda _: not path.with_name(NEXT_KEY).exists(), "status")  # the validator adopts it
    assert load_key(path).public.hex() == public != before.hex()
    run.cluster.kill("validator-1")  # so that the new key is needed
    run.do("produce", "orders", given="three\n")
    run.do("up", "--detach")
    assert consume(run, 3) == ["one", "three", "two"]
    assert errors_of(run) == []


def test_a_storage_party_is_replaced_and_its_key_too(run: Console) -> None:
    told = run.do("member", "replace", "storage-1", "storage-4").lines()
    assert told[1:] == ["in force", "storage-1 left; its folder is kept"]
    assert names(listed(run)["in_force"], "storage") == ["storage-4", "storage-2", "storage-3"]
    run.cluster.stop(["storage-2"])  # so that the new one is needed
    assert consume(run, 3) == ["one", "three", "two"]
    run.do("produce", "orders", given="four\n")
    run.do("up", "--detach")
    run.do("member", "rotate", "storage-3")
    run.cluster.stop(["storage-2"])
    run.do("produce", "orders", given="five\n")
    run.do("up", "--detach")
    assert consume(run, 5) == ["five", "four", "one", "three", "two"]
    assert errors_of(run) == []


@pytest.mark.parametrize("name", ["validator-4", "storage-2"])
def test_a_key_is_replaced_while_its_party_is_down(run: Console, name: str) -> None:
    """It has neither blocks nor a view of the chain that name its new key; another key is refused."""
    run.cluster.kill(name)
    run.do("member", "rotate", name)
    path, members = run.data / name / KEY, run.cluster.folder.members().in_force
    key = path.read_bytes()
    assert load_key(path).public in {each.public for role in MemberRole for each in members.of(role)}
    path.write_bytes((run.data / "validator-1" / KEY).read_bytes())
    refused = run("up", "--detach")
    assert refused.code == 2
    assert f"{name} did not start: the key is not that of '{name}' in the genesis" in refused.told
    path.write_bytes(key)
    run.do("up", "--detach")
    seen = run.look(lambda seen: is_whole(members_of(seen)), "status", "--json")
    assert is_whole(members_of(seen))
    run.cluster.kill({"validator-4": "validator-5", "storage-2": "storage-3"}[name])  # so that it is needed
    run.do("produce", "orders", given=f"{name}\n")
    run.do("up", "--detach")
    assert errors_of(run) == []


def is_whole(members: list[Any]) -> bool:
    return all(each["answers"] for each in members)


def test_three_validators_and_two_storage_parties_join_at_once(run: Console) -> None:
    joining = [*(f"validator-{number}" for number in (11, 12, 13)), "storage-5", "storage-6"]
    told = run.do("member", "add", *joining).lines()
    assert told[0].startswith("ordered: 7 validators and 5 storage parties, F = 2, from block ")
    assert told[1:] == ["in force"]
    for name in ("validator-4", "validator-5"):  # as many as seven tolerate
        run.cluster.kill(name)
    run.do("produce", "orders", given="six\n")
    assert len(consume(run, 6)) == 6
    run.do("up", "--detach")
    told = run.do("member", "remove", *joining).lines()
    assert told[0].startswith("ordered: 4 validators and 3 storage parties, F = 1, from block ")
    assert told[1] == "in force"
    assert len(consume(run, 6)) == 6


def test_a_client_finds_the_members_though_no_founding_validator_is_left(
    run: Console, tmp_path: Path
) -> None:
    """A client's folder has the genesis, its key and members.json; another one has a checkpoint instead."""
    mine, known = ClusterFolder(tmp_path / "mine"), ClusterFolder(tmp_path / "known")
    for client in (mine, known):
        client.key_path("consumer").parent.mkdir(parents=True)
        for name in ("genesis.json", "keys/consumer"):
            shutil.copy(run.data / name, client.path / name)
    read = ("consume", "orders", "--from-beginning", "--timeout", PATIENCE_S, "--max", 6)
    for number, old in enumerate((1, 3, 4), start=6):
        run.do("member", "replace", f"validator-{old}", f"validator-{number}")
        assert len(Console(known.path).do(*read).lines()) == 6
    assert not {f"validator-{number}" for number in range(1, 5)} & run.cluster.find().keys()
    assert len(Console(known.path).do(*read).lines()) == 6, "by its checkpoint"
    assert Console(mine.path)(*read).code == 3, "nobody is at the founding addresses"
    shutil.copy(run.cluster.folder.members_path, mine.members_path)
    assert len(Console(mine.path).do(*read).lines()) == 6


def test_parties_join_though_no_founding_validator_is_left(run: Console) -> None:
    """They find the others by members.json beside the genesis: nobody listens at the founding addresses."""
    assert not {f"validator-{number}" for number in range(1, 5)} & run.cluster.find().keys()
    run.do("member", "replace", "validator-5", "validator-9")
    run.do("member", "replace", "storage-3", "storage-7")
    for name in ("validator-6", "storage-2"):
        run.cluster.kill(name)  # so that the new ones are needed
    run.do("produce", "orders", given="seven\n")
    run.do("up", "--detach")
    assert errors_of(run) == []


# Chains whose members cannot change now, or never


def test_one_change_is_pending_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach")
        access = Access(console.cluster.folder)

        async def rotate(replica: Replica) -> Ordered:
            def decide(members: Members) -> Wish:
                new = [(MemberRole.STORAGE, "storage-1")]
                return Wish(new, lambda parties: Rotation("storage-1", parties[0].public), is_rotation=True)

            return await order_change(replica, access, decide, 1000)

        ordered = visit(access.genesis, access.admin(), rotate)
        for name in ("validator-1", "validator-2"):  # empty blocks stop, long before that height
            console.cluster.kill(name)
        found = listed(console)
        assert (found["pending"]["from"], found["former"]) == (ordered.height, [])
        assert found["pending"]["storage"][0]["public"] != found["in_force"]["storage"][0]["public"]
        lines = console.do("member", "list").lines()
        assert lines[-1] == f"from block {ordered.height} on: 4 validators and 3 storage parties, F = 1"
        assert lines[8].endswith(f"new key at block {ordered.height}")
        assert refuse(console, "add", "storage-4") == (
            f"another change of the members is ordered, from block {ordered.height} on"
        )
        assert not [each for each in errors_of(console) if "key" in each or "storage" in each]


def test_the_members_of_a_chain_of_version_1_do_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "VERSION_MAX", 1)
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach", "--parties", "1")
        assert refuse(console, "rotate", "storage-1") == (
            "the chain has protocol version 1, whose members never change"
        )


def test_the_members_of_a_cometbft_chain_do_not_change(tmp_path: Path) -> None:
    console = Console(tmp_path / "cluster")
    genesis = console.cluster.create(1)
    (validator,) = genesis.validators
    theirs = replace(genesis, validators=(replace(validator, address="http://127.0.0.1:1"),))
    folder.write_genesis(console.cluster.folder, theirs)
    refused = console("member", "rotate", "storage-1")
    assert (refused.code, refused.told.splitlines()[0]) == (
        2,
        "error: the validators of this chain are CometBFT's, so its members do not change here",
    )
