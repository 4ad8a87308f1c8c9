"""Reserved memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from veristream.search.memory import reserve, spill


@pytest.mark.parametrize("byte_count", [1, mmap.PAGESIZE - 1, mmap.PAGESIZE + 1, 5 * mmap.PAGESIZE + 4])
def test_whole_words_hold_all_bytes(byte_count: int, tmp_path: Path) -> None:
    assert reserve(byte_count).words.nbytes >= byte_count
    spilled = spill(byte_count, str(tmp_path))
    assert spilled.words.nbytes >= byte_count
    spilled.close()
