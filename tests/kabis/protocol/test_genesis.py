"""The genesis file: read back as written, and each rule with a genesis that breaks it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.chain import make_genesis, party
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import (
    Genesis,
    Party,
    StorageMode,
    find_problem,
    from_json,
    is_name,
    load_genesis,
    to_json,
)
from veristream.kabis.protocol.receipts import quorum

GOOD = make_genesis()

BROKEN: dict[str, Genesis] = {
    "is not a valid name; use letters": replace(GOOD, chain_id="a chain"),
    "out of range": replace(GOOD, time_ms=-1),
    "3 validators, but F = 1 needs 4": replace(GOOD, validators=GOOD.validators[:3]),
    "5 validators, but F = 1 needs 4": replace(GOOD, validators=(*GOOD.validators, party("v4"))),
    "2 storage parties, but F = 1 needs 3": replace(GOOD, storage=GOOD.storage[:2]),
    "3 storage parties, but F\\+1 is 2": replace(GOOD, storage_mode=StorageMode.PAPER),
    "no admin": replace(GOOD, admins=()),
    "two validators have the same name": replace(
        GOOD, validators=(*GOOD.validators[:3], Party("v0", party("v9").public))
    ),
    "two validators have the same key": replace(
        GOOD, validators=(*GOOD.validators[:3], Party("v9", GOOD.validators[0].public))
    ),
    "'a b' among the storage parties": replace(GOOD, storage=(*GOOD.storage[:2], party("a b"))),
    "two admins and clients have the same name": replace(
        GOOD, clients=(Party("admin", party("x").public),)
    ),
    "is not 32 bytes long": replace(GOOD, clients=(Party("alice", b"short"),)),
}


def test_the_file_is_read_back_as_written(tmp_path: Path) -> None:
    genesis = replace(
        GOOD, validators=tuple(replace(each, address="127.0.0.1:1") for each in GOOD.validators)
    )
    path = tmp_path / "genesis.json"
    path.write_text(to_json(genesis))
    assert load_genesis(path) == genesis


def test_addresses_have_no_part_in_the_digest_and_all_else_has() -> None:
    moved = replace(GOOD, storage=tuple(replace(each, address="127.0.0.1:9") for each in GOOD.storage))
    assert moved.digest() == GOOD.digest()
    others = [
        replace(GOOD, chain_id="other"),
        replace(GOOD, time_ms=1),
        replace(GOOD, faults=0),
        replace(GOOD, storage_mode=StorageMode.PAPER),
        replace(GOOD, validators=GOOD.validators[::-1]),
        replace(GOOD, clients=()),
        replace(GOOD, clients=(), admins=GOOD.admins + GOOD.clients),
    ]
    assert len({genesis.digest() for genesis in [GOOD, *others]}) == len(others) + 1


@pytest.mark.parametrize(("problem", "genesis"), BROKEN.items())
def test_a_genesis_that_breaks_a_rule_is_refused(problem: str, genesis: Genesis) -> None:
    with pytest.raises(ModelError, match=problem):
        from_json(to_json(genesis))
    if all(len(each.public) == 32 for each in genesis.clients) and genesis.time_ms >= 0:
        with pytest.raises(DecodeError, match=problem):
            Genesis.decode(genesis.encode())


def test_quorums() -> None:
    assert (quorum(len(GOOD.validators)), GOOD.receipts_needed) == (3, 2)
    alone = replace(GOOD, faults=0, validators=GOOD.validators[:1], storage=GOOD.storage[:1])
    assert find_problem(alone) == ""
    assert (quorum(len(alone.validators)), alone.receipts_needed) == (1, 1)
    assert find_problem(make_genesis(mode=StorageMode.PAPER)) == ""


def change(**fields: Any) -> str:
    return json.dumps(json.loads(to_json(GOOD)) | fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a genesis file"),
        ("[]", "does not say"),
        ("[" * 100_000, "not a genesis file"),
        (change(kabis="receipt/1"), "does not say"),
        (change(faults="1"), "faults is not an integer"),
        (change(faults=True), "faults is not an integer"),
        (change(chain_id=7), "chain_id is not a string"),
        (change(storage_mode="none"), "none"),
        (change(validators=7), "a list"),
        (change(validators=[7]), "a name and a public key"),
        (change(admins=[{"name": "admin"}]), "'public' is missing"),
        (change(admins=[{"name": "admin", "public": "zz"}]), "not a genesis file"),
        (change(admins=[{"name": "admin", "public": 7}]), "must be strings"),
        (change(admins=[{"name": "admin", "public": "", "address": "x" * 301}]), "longer than 300"),
    ],
)
def test_what_is_no_genesis_is_said_so(text: str, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        from_json(text)


def test_a_missing_file_is_the_machines_failure(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="cannot read the genesis"):
        load_genesis(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("name", "good"),
    [
        *[("a", True), ("A-b_c.9", True), ("n" * 249, True), ("n" * 250, False), ("", False)],
        *[(".", False), ("..", False), ("a/b", False), ("é", False), ("a\n", False)],
    ],
)
def test_names_are_those_that_kafka_allows(name: str, good: bool) -> None:
    assert is_name(name) is good
