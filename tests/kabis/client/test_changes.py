"""What the next members are, and which changes are refused with what to do."""

from __future__ import annotations

import pytest

from veristream.errors import ModelError
from veristream.kabis.client.changes import (
    Addition,
    Change,
    Removal,
    Replacement,
    Rotation,
    find_member,
    plan_change,
)
from veristream.kabis.protocol.members import MemberRole, Members, Party, StorageMode

V, S = MemberRole.VALIDATOR, MemberRole.STORAGE


def party(name: str, key: int | None = None) -> Party:
    role, number = name.rsplit("-", 1)
    base = (0 if role == "validator" else 100) + int(number)
    return Party(name, bytes([base if key is None else key]) * 32, f"127.0.0.1:{4000 + base}")


def parties(role: str, count: int) -> tuple[Party, ...]:
    return tuple(party(f"{role}-{number + 1}") for number in range(count))


def members(faults: int = 1, mode: StorageMode = StorageMode.TOLERANT, more: int = 0) -> Members:
    stores = faults + 1 if mode is StorageMode.PAPER else 2 * faults + 1 + more
    return Members(faults, mode, parties("validator", 3 * faults + 1), parties("storage", stores))


def names(planned: Members) -> tuple[int, list[str], list[str]]:
    return (
        planned.faults,
        [each.name.removeprefix("validator-") for each in planned.validators],
        [each.name.removeprefix("storage-") for each in planned.storage],
    )


def joining(*wanted: str) -> Addition:
    return Addition(tuple((V if each.startswith("v") else S, party(each)) for each in wanted))


def test_a_newcomer_takes_the_place_of_the_old_one() -> None:
    planned = plan_change(members(), Replacement("validator-2", party("validator-5")))
    assert names(planned) == (1, ["1", "5", "3", "4"], ["1", "2", "3"])
    assert planned.validators[1] == party("validator-5")
    planned = plan_change(members(), Replacement("storage-3", party("storage-9")))
    assert names(planned) == (1, ["1", "2", "3", "4"], ["1", "2", "9"])


def test_a_rotation_changes_one_key_and_nothing_else() -> None:
    planned = plan_change(members(), Rotation("validator-3", bytes([77]) * 32))
    assert planned.validators[2] == party("validator-3", 77)
    assert planned.validators[:2] + planned.validators[3:] == tuple(
        party(f"validator-{number}") for number in (1, 2, 4)
    )
    assert planned.storage == members().storage
    assert plan_change(members(), Rotation("storage-1", bytes([78]) * 32)).storage[0] == party(
        "storage-1", 78
    )


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (
            members(1, more=2),
            joining("validator-5", "validator-6", "validator-7"),
            (2, [*"1234567"], [*"12345"]),
        ),
        (
            members(),
            joining("validator-5", "validator-6", "validator-7", "storage-4", "storage-5"),
            (2, [*"1234567"], [*"12345"]),
        ),
        (
            members(1, StorageMode.PAPER),
            joining("validator-5", "validator-6", "validator-7", "storage-3"),
            (2, [*"1234567"], [*"123"]),
        ),
        (members(), joining("storage-4"), (1, [*"1234"], [*"1234"])),
        (members(0), joining("validator-2", "validator-3", "validator-4", "storage-2", "storage-3"), None),
        (members(more=1), Removal(("storage-2",)), (1, [*"1234"], [*"134"])),
        (
            members(2),
            Removal(("validator-1", "validator-3", "validator-7")),
            (1, [*"2456"], [*"12345"]),
        ),
        (
            members(2),
            Removal(("validator-1", "validator-3", "validator-7", "storage-1", "storage-1", "storage-2")),
            (1, [*"2456"], [*"345"]),
        ),
        (
            members(1),
            Removal(("validator-4", "validator-3", "validator-2")),
            (0, ["1"], [*"123"]),
        ),
    ],
)
def test_sizes_that_stand(
    before: Members, change: Change, after: tuple[int, list[str], list[str]] | None
) -> None:
    planned = plan_change(before, change)
    assert planned.find_problem() == ""
    assert names(planned) == (after or (1, [*"1234"], [*"123"]))


FROM_FOUR = (
    "replace one with `veristream kabis member replace`; or go from 4 to 7, which tolerate 2 faulty ones,"
    " by adding three in one command; or to 1, which tolerate no faulty one, by removing three"
)
FROM_ONE = (
    "replace one with `veristream kabis member replace`; or go from 1 to 4, which tolerate one faulty one,"
    " by adding three in one command"
)


@pytest.mark.parametrize(
    ("before", "change", "message", "hint"),
    [
        (members(), joining("validator-5"), "the number of validators must be 3F + 1, not 5", FROM_FOUR),
        (members(), Removal(("validator-1",)), "the number of validators must be 3F + 1, not 3", FROM_FOUR),
        (
            members(0),
            joining("validator-2"),
            "the number of validators must be 3F + 1, not 2",
            FROM_ONE,
        ),
        (
            members(0),
            Removal(("validator-1",)),
            "the number of validators must be 3F + 1, not 0",
            FROM_ONE,
        ),
        (
            members(),
            joining("validator-5", "validator-6", "validator-7"),
            "7 validators need at least 2F + 1 storage parties, that is 5, not 3",
            "add 2 more in the same command, such as storage-4",
        ),
        (
            members(),
            Removal(("storage-1",)),
            "4 validators need at least 2F + 1 storage parties, that is 3, not 2",
            "add or replace one instead",
        ),
        (
            members(1, StorageMode.PAPER),
            joining("storage-3"),
            "4 validators need F + 1 storage parties, that is 2, not 3",
            "remove 1 in the same command",
        ),
        (
            members(),
            Replacement("validator-1", party("validator-2", 55)),
            "there is a member validator-2 already",
            "choose another name; `veristream kabis member rotate` replaces the key of a member",
        ),
        (
            members(),
            Addition(((S, party("storage-4")), (S, party("storage-4", 99)))),
            "there is a member storage-4 already",
            "choose another name; `veristream kabis member rotate` replaces the key of a member",
        ),
        (
            members(),
            Addition(((S, Party("validator-1", bytes([55]) * 32, "h:1")),)),
            "there is a member validator-1 already",
            "choose another name; `veristream kabis member rotate` replaces the key of a member",
        ),
        (
            members(),
            Replacement("validator-1", party("validator-5", 2)),
            "validator-2 has this key already",
            "make a new one for validator-5: veristream kabis member key --help says how",
        ),
        (
            members(),
            Rotation("storage-2", party("storage-2").public),
            "storage-2 has this key already",
            "make a new one for storage-2: veristream kabis member key --help says how",
        ),
        (
            members(),
            Replacement("storage-1", Party("../x", bytes(32), "h:1")),
            "'../x' is not a valid name",
            "use letters, digits, '.', '_' and '-'",
        ),
        (
            members(),
            Replacement("storage-1", Party("storage-4", bytes(32))),
            "the address of storage-4 is not HOST:PORT: ''",
            "give the address at which all others reach it",
        ),
        (
            members(),
            Removal(("validator-9",)),
            "'validator-9' is not a member of the chain",
            None,
        ),
    ],
)
def test_changes_that_are_refused(before: Members, change: Change, message: str, hint: str | None) -> None:
    with pytest.raises(ModelError) as refused:
        plan_change(before, change)
    assert refused.value.message == message
    if hint is not None:
        assert refused.value.hint == hint


def test_two_newcomers_with_one_key_are_refused() -> None:
    twins = Addition(((S, party("storage-4")), (S, party("storage-5", 104))))
    with pytest.raises(ModelError, match="two storage parties have the same key"):
        plan_change(members(), twins)


def test_a_member_is_found_in_either_role() -> None:
    assert find_member(members(), "storage-2") == (S, party("storage-2"))
    assert find_member(members(), "validator-4") == (V, party("validator-4"))
