"""Members that change, as a cluster's folder knows them; without any process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kabis.moving import moving_over
from tests.kabis.session.console import Console
from veristream.kabis.client.changes import Addition, Change, Replacement, Rotation
from veristream.kabis.client.known_members import note_members
from veristream.kabis.cluster.cluster import StartOptions
from veristream.kabis.cluster.folder import KEY, NEXT_KEY, make_party_key
from veristream.kabis.cluster.rejoining import is_restored
from veristream.kabis.cluster.restarts import hold
from veristream.kabis.operations.backup import make_backup
from veristream.kabis.operations.folder_check import check_folder
from veristream.kabis.operations.supervisor import Supervisor
from veristream.kabis.protocol.members import MemberRole, Party

FOUNDING = [
    *(f"validator-{number}" for number in range(1, 5)),
    *(f"storage-{number}" for number in range(1, 4)),
]


@pytest.fixture
def console(tmp_path: Path) -> Console:
    console = Console(tmp_path / "cluster")
    console.cluster.create()
    return console


def order(console: Console, change: Change, height: int = 5, until: int = 5) -> None:
    """Writes to the folder what a command would that has followed the chain so far."""
    chain = moving_over(console.cluster.folder)
    chain.change(change, height)
    chain.reach(until)
    note_members(console.cluster.folder.members_path, chain.ledger)


def join(console: Console, name: str) -> Party:
    return Party(name, make_party_key(console.data / name).public, "127.0.0.1:4999")


def replace_validator(console: Console, until: int = 5) -> Party:
    joining = join(console, "validator-5")
    order(console, Replacement("validator-2", joining), until=until)
    return joining


def test_a_newcomer_runs_before_it_is_in_force_and_a_former_party_no_more(console: Console) -> None:
    cluster = console.cluster
    assert cluster.names() == FOUNDING
    replace_validator(console, until=1)
    assert (cluster.names(), cluster.former()) == ([*FOUNDING, "validator-5"], [])
    replace_validator(console, until=5)
    assert cluster.names() == [*(name for name in FOUNDING if name != "validator-2"), "validator-5"]
    assert cluster.former() == ["validator-2"]


def test_a_newcomer_of_another_machine_is_not_run_here(console: Console) -> None:
    folder = console.cluster.folder
    order(console, Addition(((MemberRole.STORAGE, join(console, "storage-4")),)))
    assert console.cluster.names() == [*FOUNDING, "storage-4"]
    (folder.party("storage-4") / KEY).unlink()
    assert console.cluster.names() == FOUNDING


def test_commands_and_ports_of_newcomers(console: Console) -> None:
    (console.data / "kabis.toml").write_text(
        "[metrics]\nport = 9100\n[parties.validator-2]\nlisten = '127.0.0.1:9'\n", encoding="utf-8"
    )
    party = replace_validator(console)
    joined = console.cluster.command("validator-5", StartOptions())
    assert joined[3] == "validator"
    assert joined[joined.index("--name") + 1] == "validator-5"
    assert joined[joined.index("--listen") + 1] == party.address
    ports = {
        name: (command := console.cluster.command(name, StartOptions()))[
            command.index("--metrics-port") + 1
        ]
        for name in ("validator-1", "validator-3", "storage-3", "validator-5")
    }
    assert ports == {
        "validator-1": "9100",
        "validator-3": "9102",
        "storage-3": "9106",
        "validator-5": "9107",
    }
    assert "--listen" not in console.cluster.command("validator-1", StartOptions())
    assert console("config").code == 0, "a former party may have settings"


def test_units_are_those_of_the_members(console: Console, tmp_path: Path) -> None:
    replace_validator(console)
    console.do("units", tmp_path / "units")
    services = {
        path.name.partition("-v")[2] or path.name for path in (tmp_path / "units").glob("*validator*")
    }
    assert services == {f"alidator-{number}.service" for number in (1, 3, 4, 5)}


def test_the_addresses_on_the_ledger_stay(console: Console) -> None:
    replace_validator(console, until=1)
    before = console.cluster.genesis
    refused = console("up", "--port", "0", "--detach")
    assert (refused.code, refused.told.splitlines()[0]) == (
        2,
        "error: the members have changed, so their addresses are on the ledger and --port cannot move them",
    )
    assert console.cluster.genesis == before


def what(console: Console) -> list[tuple[str, str]]:
    return [(each.what, each.where) for each in check_folder(console.cluster)]


def test_the_doctor_checks_the_keys_that_members_have_and_get(console: Console) -> None:
    replace_validator(console)
    assert what(console) == []
    key = console.data / "validator-5" / KEY
    key.write_bytes((console.data / "storage-1" / KEY).read_bytes())
    assert what(console) == [("the key is not that of validator-5", str(key))]
    (console.data / "validator-2" / KEY).unlink()
    assert len(what(console)) == 1, "nobody needs the key of a former party"


def test_the_doctor_misses_a_next_key(console: Console) -> None:
    folder = console.data / "storage-2"
    order(console, Rotation("storage-2", make_party_key(folder, is_next=True).public), until=1)
    assert what(console) == []
    (folder / NEXT_KEY).rename(folder / "elsewhere")
    assert what(console) == [("the key is not that of storage-2", str(folder / KEY))]


def test_a_damaged_file_of_members_is_named(console: Console) -> None:
    replace_validator(console)
    path = console.cluster.folder.members_path
    path.write_text("{", encoding="utf-8")
    for words in (("doctor",), ("status",), ("up", "--detach")):
        refused = console(*words)
        assert refused.code == 2
        assert refused.told.startswith(f"error: {path} does not belong to this chain or is damaged")


def test_a_backup_knows_the_members(console: Console, tmp_path: Path) -> None:
    replace_validator(console)
    archive = tmp_path / "all.tar"
    made = make_backup(console.cluster, archive)
    assert "validator-5" in made.parties
    assert "validator-2" not in made.parties
    assert make_backup(console.cluster, tmp_path / "former.tar", ["validator-2"]).parties == (
        "validator-2",
    )
    new = Console(tmp_path / "new")
    assert "the backup has all validators" in new("restore", archive).told
    new.do("restore", archive, "--give-up-later-blocks")
    assert new.cluster.folder.members() == console.cluster.folder.members()
    most = [each for each in made.parties if each != "validator-5"]
    make_backup(console.cluster, tmp_path / "most.tar", most, with_keys=True)
    Console(tmp_path / "fewer").do("restore", tmp_path / "most.tar")
    assert is_restored(tmp_path / "fewer" / "validator-3")
    assert not is_restored(tmp_path / "fewer" / "storage-3")


def test_status_says_who_joins_and_who_left(console: Console) -> None:
    replace_validator(console, until=1)
    assert_lines(console, "validator-2 leaves at block 5", "validator-5 joins at block 5")
    replace_validator(console, until=5)
    assert_lines(console, "validator-2 left at block 5; its data is kept")
    parties = json.loads(console("status", "--json").output)["parties"]
    found = {each["name"]: (each["membership"], each["begin"], each["end"]) for each in parties}
    assert found["validator-2"] == ("former", 0, 5)
    assert found["validator-5"] == ("in force", 5, None)
    assert found["storage-1"] == ("in force", 0, None)


def assert_lines(console: Console, *expected: str) -> None:
    lines = console("status").lines()
    assert [line for line in lines if " at block " in line] == [*expected]


def test_a_supervisor_starts_who_joins(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_validator(console, until=1)
    for name in FOUNDING:
        hold(console.data / name)
    cluster, told, launched = console.cluster, list[str](), list[str]()
    monkeypatch.setattr(cluster, "launch", lambda _, names: launched.extend(names))
    Supervisor(cluster, StartOptions(), told.append).step()
    assert (launched, told) == (["validator-5"], ["validator-5 joins the chain; started it"])
