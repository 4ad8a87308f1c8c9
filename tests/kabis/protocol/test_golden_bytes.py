"""The bytes of everything that is signed, hashed, stored or sent are those of the golden files.

Signatures and hashes are over encodings: bytes that change silently would make old chains unreadable.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

import pytest

from tests.conftest import Golden
from tests.kabis.fuzz.decoders import find_modules
from tests.kabis.protocol import examples
from veristream.kabis.protocol.codec import Coded, Encoded

SHOWN_BYTES_MAX = 400
"""Longer encodings stand in the golden file by their hash."""


def find_encoded() -> set[type[Encoded]]:
    """Every class of Kabis that has an encoding."""
    kinds = (kind for module in list(find_modules()) for kind in vars(module).values())
    return {
        kind
        for kind in kinds
        if inspect.isclass(kind) and issubclass(kind, Encoded) and hasattr(kind, "KIND")
    }


def render(encodings: Iterable[tuple[str, bytes]]) -> str:
    """A line for each encoding: its name, its length, and its bytes in hexadecimal or their hash."""
    return "\n".join(
        f"{name}: {len(data)} bytes, {data.hex() if len(data) <= SHOWN_BYTES_MAX else hash_of(data)}"
        for name, data in encodings
    )


def hash_of(data: bytes) -> str:
    return f"sha256 {sha256(data).hexdigest()}"


def test_every_class_has_two_examples() -> None:
    counts = Counter(map(type, examples.VALUES))
    assert {kind.KIND for kind in find_encoded() if counts[kind] < 2} == set()


def test_kinds_are_told_apart() -> None:
    kinds = Counter(kind.KIND for kind in find_encoded())
    assert [kind for kind, count in kinds.items() if count > 1] == []


def test_values(golden: Golden) -> None:
    golden("kabis/values.txt", render((value.KIND, value.encode()) for value in examples.VALUES))


def test_messages(golden: Golden) -> None:
    golden("kabis/messages.txt", render(examples.list_messages()))


def test_statements(golden: Golden) -> None:
    golden("kabis/statements.txt", render(examples.list_statements()))


def test_chain(golden: Golden) -> None:
    golden("kabis/chain.txt", render(examples.list_chain(version=1)))


def test_chain_of_version_2(golden: Golden) -> None:
    golden("kabis/chain-2.txt", render(examples.list_chain(version=2)))


@pytest.mark.parametrize("value", examples.VALUES, ids=lambda value: value.KIND)
def test_every_value_is_read_back(value: Encoded) -> None:
    if isinstance(value, Coded):
        assert type(value).decode(value.encode()).encode() == value.encode()
