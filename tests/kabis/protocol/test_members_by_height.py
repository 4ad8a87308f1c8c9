"""Who is a member when, and which storage party has a topic that is not validated."""

from __future__ import annotations

from dataclasses import replace

from tests.kabis.chain import key_of, make_genesis
from tests.kabis.ledger.changing import member, replaced
from veristream.kabis.protocol.members import MemberRole, Members, Memberships, Party

FOUNDING = make_genesis().members
SECOND = replaced(FOUNDING, "s1", member("s4"))
ROTATED = replaced(SECOND, "s0", member("s0", 1))
ALL = Memberships(FOUNDING, [(20, ROTATED), (10, SECOND)])


def names(parties: tuple[Party, ...]) -> list[str]:
    return [party.name for party in parties]


def test_members_are_in_force_from_their_height_on() -> None:
    assert [ALL.at(height) for height in (1, 9, 10, 19, 20, 99)] == [
        *(FOUNDING, FOUNDING, SECOND, SECOND, ROTATED, ROTATED)
    ]
    assert [ALL.pending(height) for height in (1, 9, 10, 19, 20)] == [
        SECOND,
        SECOND,
        ROTATED,
        ROTATED,
        None,
    ]
    assert ALL.changes == ((10, SECOND), (20, ROTATED))
    assert Memberships(FOUNDING).changed(20, ROTATED).changed(10, SECOND).changes == ALL.changes


def test_those_about_to_come_are_known_with_the_key_that_they_will_have() -> None:
    may_come = ALL.may_come(15, MemberRole.STORAGE)
    assert [(party.name, party.public) for party in may_come] == [
        ("s0", key_of("s0").public),
        ("s4", key_of("s4").public),
        ("s2", key_of("s2").public),
        ("s0", key_of("s0", 1).public),
    ]
    assert names(ALL.may_come(25, MemberRole.STORAGE)) == ["s0", "s4", "s2"]


def test_every_storage_party_is_listed_once_and_former_ones_last() -> None:
    assert names(ALL.storage_parties(5)) == ["s0", "s1", "s2", "s4"]
    assert names(ALL.storage_parties(10)) == ["s0", "s4", "s2", "s1"]
    keys = {party.name: party.public for party in ALL.storage_parties(19)}
    assert keys["s0"] == key_of("s0").public
    assert {party.name: party.public for party in ALL.storage_parties(20)}["s0"] == key_of("s0", 1).public


def test_the_last_address_that_was_named_counts() -> None:
    founding = replace(FOUNDING, storage=tuple(replace(each, address="old:1") for each in FOUNDING.storage))
    silent = replace(SECOND, storage=tuple(replace(each, address="") for each in SECOND.storage))
    moved = replaced(silent, "s2", replace(silent.storage[2], address="new:2"))
    found = Memberships(founding, [(10, silent), (20, moved)]).storage_parties(10)
    assert [(party.name, party.address) for party in found] == [
        *(("s0", "old:1"), ("s4", ""), ("s2", "new:2"), ("s1", "old:1"))
    ]


def test_a_party_that_left_keeps_its_last_key_and_one_that_returns_has_the_new_one() -> None:
    returned = replaced(ROTATED, "s2", member("s1", 2))
    history = ALL.changed(30, returned)
    assert [history.storage_key("s1", height) for height in (9, 29, 30)] == [
        *(key_of("s1").public, key_of("s1").public, key_of("s1", 2).public)
    ]
    assert (history.storage_key("s4", 9), history.storage_key("s9", 99)) == (None, None)
    for name, epoch, had in (
        ("s0", 0, True),
        ("s0", 1, True),
        ("s1", 2, True),
        ("s1", 1, False),
        ("s9", 0, False),
    ):
        assert history.had_storage(name, key_of(name, epoch).public) is had
    assert [history.has_joined(name) for name in ("s0", "s1", "s2", "s4")] == [True, True, False, True]


def test_the_storage_parties_are_the_same_since_their_last_change() -> None:
    only_validators = replaced(SECOND, "v0", member("v9"))
    history = Memberships(FOUNDING, [(10, SECOND), (20, only_validators), (30, ROTATED)])
    assert [history.storage_since(height) for height in (0, 9, 10, 20, 29, 30)] == [0, 0, 10, 10, 10, 30]
    assert (history.storage_since(), Memberships(FOUNDING).storage_since()) == (30, 0)


def test_a_topic_that_is_not_validated_stays_until_its_party_leaves() -> None:
    topics = [f"topic-{number}" for number in range(60)]
    before, after = Memberships(FOUNDING), Memberships(FOUNDING, [(10, SECOND)])
    homes = {topic: before.party_of(topic) for topic in topics}
    assert set(homes.values()) == {"s0", "s1", "s2"}
    for topic in topics:
        if homes[topic] == "s1":
            assert after.party_of(topic) in names(SECOND.storage)
        else:
            assert after.party_of(topic) == homes[topic]
    back: Members = replaced(SECOND, "s4", member("s1"))
    again = after.changed(20, back)
    assert all(again.party_of(topic) == after.party_of(topic) for topic in topics if homes[topic] != "s1")
