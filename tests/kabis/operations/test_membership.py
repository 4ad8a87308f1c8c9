"""Keys of members: made here or elsewhere, proved to the admin, and adopted once they are in force."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kabis.moving import moving_over
from tests.kabis.session.console import Console
from veristream.cli.app import app
from veristream.errors import ModelError
from veristream.kabis.client.changes import Rotation
from veristream.kabis.client.known_members import know_ledger, note_members
from veristream.kabis.cluster.folder import KEY, NEXT_KEY, make_party_key
from veristream.kabis.operations.issuing import turn_on
from veristream.kabis.operations.membership import (
    Offer,
    check_changeable,
    find_role,
    join_elsewhere,
    join_here,
    settle,
)
from veristream.kabis.process.tls import CERTIFICATE, read_tls
from veristream.kabis.protocol.genesis import load_genesis
from veristream.kabis.protocol.keys import load_key
from veristream.kabis.protocol.members import MemberRole, Party
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.tls import rehearse

V, S = MemberRole.VALIDATOR, MemberRole.STORAGE


@pytest.fixture
def console(tmp_path: Path) -> Console:
    console = Console(tmp_path / "cluster")
    console.cluster.create()
    return console


def test_a_new_key_is_adopted_once_it_is_in_force(console: Console) -> None:
    folder = console.data / "validator-3"
    before, following = load_key(folder / KEY), make_party_key(folder, is_next=True)
    chain = moving_over(console.cluster.folder)
    chain.change(Rotation("validator-3", following.public), 5)
    for until, public in ((2, before.public), (5, following.public)):
        chain.reach(until)
        note_members(console.cluster.folder.members_path, chain.ledger)
        settle(console.cluster, know_ledger(chain.ledger))
        assert load_key(folder / KEY).public == public
    assert not (folder / NEXT_KEY).exists()


def test_a_key_that_was_made_elsewhere(console: Console, tmp_path: Path) -> None:
    genesis = tmp_path / "there" / "genesis.json"
    genesis.parent.mkdir()
    genesis.write_bytes((console.data / "genesis.json").read_bytes())

    def run(*words: str) -> tuple[int, list[str], str]:
        done = CliRunner().invoke(app, ["kabis", "member", "key", *words], catch_exceptions=False)
        return done.exit_code, done.stdout.splitlines(), done.stderr

    folder = str(genesis.parent / "validator-5")
    code, lines, _ = run(folder, "--address", "10.0.0.5:4001")
    public, possession = lines[0].split()[1], lines[1].split()[1]
    assert (code, load_key(Path(folder) / KEY).public.hex()) == (0, public)
    assert lines[-1] == (
        f"veristream kabis member add validator-5 --public {public} --possession {possession}"
        " --address 10.0.0.5:4001"
    )
    assert run(folder, "--address", "10.0.0.5:4001")[1] == lines, "a key is kept"
    offer = Offer(bytes.fromhex(public), bytes.fromhex(possession), "10.0.0.5:4001")
    made = join_elsewhere(load_genesis(genesis), V, "validator-5", offer)
    assert made.party == Party("validator-5", offer.public, offer.address)
    for role, name, given in (
        (S, "validator-5", offer),
        (V, "validator-6", offer),
        (V, "validator-5", changed(offer, possession=bytes(64))),
        (V, "validator-5", changed(offer, public=load_key(console.data / "storage-1" / KEY).public)),
    ):
        with pytest.raises(ModelError, match="does not prove that it has the key"):
            join_elsewhere(load_genesis(genesis), role, name, given)
    code, lines, _ = run(folder, "--next")
    assert (code, lines[-1].startswith("veristream kabis member rotate validator-5 --public ")) == (0, True)
    assert load_key(Path(folder) / NEXT_KEY).public.hex() == lines[0].split()[1] != public
    assert run(folder)[2].startswith("error: --address is missing\nhint: give --address HOST:PORT")
    assert run(folder, "--next", "--address", "a:1")[2].startswith("error: --next keeps the address")
    assert run(folder, "--address", "nowhere")[2].startswith("error: --address nowhere is not HOST:PORT")
    assert run(str(genesis.parent / "x"), "--address", "a:1")[2].startswith(
        "error: the name 'x' does not say"
    )
    assert not (genesis.parent / "x").exists()


def test_a_newcomer_gets_a_certificate_where_the_folder_issues_them(console: Console) -> None:
    plain = join_here(console.cluster.folder, S, "storage-4")
    assert not (console.data / plain.party.name / CERTIFICATE).exists()
    turn_on(console.cluster)
    made = join_here(console.cluster.folder, S, "storage-5")
    tls = read_tls(console.cluster.settings, console.data, "storage-5")
    assert tls is not None
    rehearse(tls, tls, Address.parse(made.party.address).host)


def test_the_role_is_in_the_name_or_given() -> None:
    assert (find_role("validator-9"), find_role("storage-9"), find_role("storage-9", V)) == (V, S, V)
    with pytest.raises(ModelError, match="does not say what the party does"):
        find_role("berlin")
    assert find_role("berlin", S) is S


def test_the_members_of_a_cometbft_chain_never_change(console: Console) -> None:
    genesis = console.cluster.genesis
    check_changeable(genesis)
    theirs = tuple(
        changed(party, address=f"http://127.0.0.1:{n}") for n, party in enumerate(genesis.validators)
    )
    with pytest.raises(ModelError, match="are CometBFT's, so its members do not change here"):
        check_changeable(changed(genesis, validators=theirs))
