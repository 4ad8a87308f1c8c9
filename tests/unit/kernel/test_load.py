"""The cache of compiled kernels: used when it fits, ignored when it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.parity.engines import kernel_steps
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Always
from veristream.ir.text.read import read_network
from veristream.kernel import load
from veristream.kernel.code import objects
from veristream.kernel.load import load_kernel
from veristream.kernel.watch import Watch
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
    load._relations.clear()  # what other tests have left in memory
    return read_network(Source("tiny.net", TEXT))


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled from now on."""
    texts: list[str] = []
    compile_text = objects.compile_text

    def recording(text: str) -> bytes:
        texts.append(text)
        return compile_text(text)

    monkeypatch.setattr(objects, "compile_text", recording)
    return texts


def test_the_second_process_compiles_nothing(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_kernel(network, Watch())
    assert len(list(tmp_path.glob("*.o"))) == 2
    load._relations.clear()
    texts = compiled(monkeypatch)
    kernel = load_kernel(replace(network, properties=()), Watch())
    state = Interpreter(network).initial()
    assert len(kernel_steps(kernel, network, state)[0]) == 1
    assert texts == []


def test_all_that_is_watched_shares_one_relation(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = compiled(monkeypatch)
    claim = network.properties[0].claim
    assert isinstance(claim, Always)
    watches = [Watch(), Watch(states=(claim.condition,)), Watch(measures=(claim.condition,))]
    kernels = [load_kernel(network, watch) for watch in watches]
    assert len({kernel.successors for kernel in kernels}) == 1
    assert ["step.0" in text for text in texts] == [True, False, False, False]
    assert len(list(tmp_path.glob("*.o"))) == 4
    load_kernel(replace(network, name="other"), Watch())
    assert ["step.0" in text for text in texts[4:]] == [True, False]
    assert len(list(tmp_path.glob("*.o"))) == 6


def test_a_damaged_entry_is_compiled_anew(network: Network, tmp_path: Path) -> None:
    load_kernel(network, Watch())
    entries = list(tmp_path.glob("*.o"))
    assert len(entries) == 2
    for entry in entries:
        whole = entry.read_bytes()
        for damaged in (b"", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
            entry.write_bytes(damaged)
            load._relations.clear()
            kernel = load_kernel(network, Watch())
            state = Interpreter(network).initial()
            assert len(kernel_steps(kernel, network, state)[0]) == 1
            assert entry.read_bytes() == whole


def test_relations_of_many_networks_do_not_stay_in_memory(network: Network) -> None:
    kernels = [load_kernel(replace(network, name=f"n{i}"), Watch()) for i in range(2 * load.KEPT)]
    assert len(load._relations) == load.KEPT
    state = Interpreter(network).initial()
    assert [len(kernel_steps(kernel, network, state)[0]) for kernel in kernels] == [1] * len(kernels)


def test_a_cache_that_cannot_be_written_is_no_error(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("VERISTREAM_CACHE", str(blocked / "cache"))
    assert load_kernel(network, Watch()).successors != 0
