"""The trie: its root depends on the leaves alone, and a path proves one of them and nothing else."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.strategies import patient
from veristream.kabis.ledger.trie import (
    EMPTY,
    Leaf,
    count_leaves,
    hash_leaf,
    iterate_leaves,
    place_of,
    prove,
    root_of,
    update,
    verify_leaf,
)
from veristream.kabis.protocol.merkle import ProofError

Contents = dict[bytes, bytes]
contents = st.dictionaries(st.binary(max_size=2), st.binary(max_size=2), max_size=30)


def bits_of(key: bytes) -> str:
    return f"{int.from_bytes(sha256(key).digest(), 'big'):0256b}"


def oracle(leaves: Contents, prefix: str = "") -> bytes:
    """The root as it is defined, from all leaves whose bits begin with the prefix."""
    below = [key for key in leaves if bits_of(key).startswith(prefix)]
    if not below:
        return sha256(b"\x02").digest()
    if len(below) == 1:
        (key,) = below
        return sha256(b"\x00" + len(key).to_bytes(4, "big") + key + leaves[key]).digest()
    return sha256(b"\x01" + oracle(leaves, prefix + "0") + oracle(leaves, prefix + "1")).digest()


def leaf_of(key: bytes, value: bytes) -> Leaf:
    return Leaf(place_of(key), hash_leaf(key, value), (key, value))


def change_of(key: bytes, value: bytes | None) -> tuple[int, Leaf | None]:
    return place_of(key), None if value is None else leaf_of(key, value)


@given(st.lists(st.dictionaries(st.binary(max_size=1), st.none() | st.binary(max_size=2), max_size=20)))
@patient
def test_the_root_is_that_of_the_leaves_whatever_the_history(
    history: list[dict[bytes, bytes | None]],
) -> None:
    node, held, frozen = None, Contents(), []
    for changes in history:
        frozen.append((node, root_of(node), dict(held)))
        node = update(node, [change_of(key, value) for key, value in changes.items()])
        held = {key: value for key, value in (held | changes).items() if value is not None}
        assert root_of(node) == oracle(held)
        assert count_leaves(node) == len(held)
        assert sorted(leaf.entry for leaf in iterate_leaves(node)) == sorted(held.items())
    for earlier, root, leaves in frozen:
        assert root_of(earlier) == root
        assert dict(leaf.entry for leaf in iterate_leaves(earlier)) == leaves


def test_without_leaves_the_root_is_fixed() -> None:
    one = update(None, [change_of(b"a", b"1")])
    assert root_of(None) == root_of(update(one, [change_of(b"a", None)])) == EMPTY
    assert update(None, [change_of(b"a", None)]) is None


@given(contents.filter(bool), st.data())
@patient
def test_a_path_proves_its_leaf_and_no_other(held: Contents, data: st.DataObject) -> None:
    node = update(None, [change_of(key, value) for key, value in held.items()])
    key = data.draw(st.sampled_from(sorted(held)))
    found = prove(node, place_of(key))
    assert found is not None
    leaf, path = found
    assert leaf.entry == (key, held[key])
    verify_leaf(leaf.place, leaf.digest, path, root_of(node))
    wrong = [
        (leaf.place, hash_leaf(key, held[key] + b"x"), path, root_of(node)),
        (leaf.place, leaf.digest, (*path, EMPTY), root_of(node)),
        (leaf.place, leaf.digest, path, EMPTY),
    ]
    if path:
        flipped = leaf.place ^ 1 << 256 - len(path)
        wrong += [
            (flipped, leaf.digest, path, root_of(node)),
            (leaf.place, leaf.digest, path[1:], root_of(node)),
            (leaf.place, leaf.digest, (EMPTY, *path[1:]), bytes(32)),
        ]
    for case in wrong:
        with pytest.raises(ProofError):
            verify_leaf(*case)
    assert prove(node, place_of(b"absent")) is None


def test_a_path_has_at_most_as_many_steps_as_a_place_has_bits() -> None:
    with pytest.raises(ProofError, match="too long"):
        verify_leaf(0, EMPTY, (EMPTY,) * 257, EMPTY)
