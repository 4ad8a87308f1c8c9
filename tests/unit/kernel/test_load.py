"""The cache of compiled kernels: used when it fits, ignored when it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.parity.engines import kernel_steps
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.text.read import read_network
from veristream.kernel import load
from veristream.kernel.emit import Watch
from veristream.kernel.load import load_kernel
from veristream.source import Source

TEXT = """
network tiny
var n: 0..3 = 0
component C { location here initial  edge here -> here { when n < 3 do { n := n + 1; } } }
property p: always n < 4
"""


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    return read_network(Source("tiny.net", TEXT))


def refuse(text: str) -> bytes:
    raise AssertionError("compiled although the cache has it")


def test_the_second_load_compiles_nothing(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_kernel(network, Watch())
    assert len(list(tmp_path.glob("*.o"))) == 1
    monkeypatch.setattr(load, "_compile", refuse)
    kernel = load_kernel(replace(network, properties=()), Watch())
    state = Interpreter(network).initial()
    assert len(kernel_steps(kernel, network, state)[0]) == 1


def test_another_network_or_watch_is_another_entry(network: Network, tmp_path: Path) -> None:
    load_kernel(network, Watch())
    load_kernel(replace(network, name="other"), Watch())
    load_kernel(network, Watch(states=(network.properties[0].claim.condition,)))  # type: ignore[union-attr]
    assert len(list(tmp_path.glob("*.o"))) == 3


def test_a_damaged_entry_is_compiled_anew(network: Network, tmp_path: Path) -> None:
    load_kernel(network, Watch())
    (entry,) = tmp_path.glob("*.o")
    whole = entry.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
        entry.write_bytes(damaged)
        kernel = load_kernel(network, Watch())
        state = Interpreter(network).initial()
        assert len(kernel_steps(kernel, network, state)[0]) == 1
        assert entry.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_no_error(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("VERISTREAM_CACHE", str(blocked / "cache"))
    assert load_kernel(network, Watch()).successors != 0
