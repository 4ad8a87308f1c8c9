"""Merkle trees against the vectors of certificate transparency's reference, and against the definition."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.strategies import patient
from veristream.kabis.protocol.merkle import (
    ProofError,
    compute_root,
    hash_leaves,
    prove_inclusion,
    verify_inclusion,
)

LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
PATHS = {
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
}


@pytest.mark.parametrize("count", range(9))
def test_roots_are_those_of_the_reference(count: int) -> None:
    assert compute_root(hash_leaves(LEAVES[:count])).hex() == ROOTS[count]


@pytest.mark.parametrize(("place", "path"), PATHS.items())
def test_paths_are_those_of_the_reference(place: tuple[int, int], path: tuple[str, ...]) -> None:
    index, count = place
    assert tuple(step.hex() for step in prove_inclusion(hash_leaves(LEAVES[:count]), index)) == path


def defined_root(hashes: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return sha256(b"\x01" + defined_root(hashes[:split]) + defined_root(hashes[split:])).digest()


def test_every_leaf_of_every_small_tree_is_proved() -> None:
    for count in range(1, 40):
        hashes = hash_leaves([bytes([number]) for number in range(count)])
        root = compute_root(hashes)
        assert root == defined_root(hashes)
        for index in range(count):
            verify_inclusion(hashes[index], index, count, prove_inclusion(hashes, index), root)


@given(st.integers(1, 40), st.data())
@patient
def test_a_proof_of_anything_else_fails(count: int, data: st.DataObject) -> None:
    hashes = hash_leaves([bytes([number]) for number in range(count)])
    root, index = compute_root(hashes), data.draw(st.integers(0, count - 1))
    path = prove_inclusion(hashes, index)
    wrong = data.draw(st.sampled_from(["leaf", "index", "count", "short", "long", "root"]))
    leaf, place, size, steps, top = hashes[index], index, count, list(path), root
    if wrong == "leaf":
        leaf = bytes(32)
    elif wrong == "index":
        place = data.draw(st.integers(-1, count).filter(lambda other: other != index))
    elif wrong == "count":
        # Another size may have a path of the same shape; then it is the same statement.
        size = data.draw(st.sampled_from([0, index, 4 * count]))
    elif wrong == "short":
        steps = steps[:-1] if steps else [bytes(32)]
    elif wrong == "long":
        steps.append(bytes(32))
    else:
        top = bytes(32)
    with pytest.raises(ProofError):
        verify_inclusion(leaf, place, size, steps, top)


def test_there_is_no_path_of_a_leaf_outside() -> None:
    with pytest.raises(IndexError):
        prove_inclusion(hash_leaves(LEAVES), 8)
