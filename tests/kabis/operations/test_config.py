"""`kabis config`, and parties that follow the settings of their cluster."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.kabis.session.console import Console, opened
from veristream.kabis.protocol.keys import load_key

SETTINGS = """[log]
level = "debug"
bytes_max = 10000
files_max = 2

[retention]
segment_bytes = 65536
"""


def test_config_prints_the_effective_settings(tmp_path: Path) -> None:
    console = Console(tmp_path / "cluster")
    assert console("config").code == 2
    console.cluster.create(1)
    (console.data / "kabis.toml").write_text(SETTINGS, encoding="utf-8")
    printed = tomllib.loads(console.do("config").output)
    assert printed | {"parties": {}} == json.loads(console.do("config", "--json").output)
    assert printed["log"] == {"level": "debug", "bytes_max": 10_000, "files_max": 2}
    assert printed["quotas"]["connections_max"] == 4096


def test_a_mistake_stops_up_before_anything_starts(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.cluster.create(1)
        (console.data / "kabis.toml").write_text("[log]\nlevle = 3\n", encoding="utf-8")
        for words in (("config",), ("up", "--detach")):
            refused = console(*words)
            assert refused.code == 2
            assert "kabis.toml:2:1: error: unknown key `levle`" in refused.told
            assert "hint: did you mean `level`?" in refused.told
        assert console.cluster.find() == {}
        (console.data / "kabis.toml").write_text("[parties.storage-7]\n", encoding="utf-8")
        refused = console("config")
        assert (refused.code, "which is no party here" in refused.told) == (2, True)


@pytest.mark.long
def test_parties_log_as_set_and_no_secret(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.cluster.create(1)
        (console.data / "kabis.toml").write_text(SETTINGS, encoding="utf-8")
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="a secret payload\n")
        texts = {
            name: (console.data / name / "party.log").read_text(encoding="utf-8")
            for name in ("validator-1", "storage-1")
        }
        for name, text in texts.items():
            lines = [json.loads(line) for line in text.splitlines()]
            assert {line["party"] for line in lines} == {name}
            assert any("listens at" in line["message"] for line in lines)
        keys = [*(console.data / "keys").iterdir(), *console.data.glob("*-1/key")]
        assert len(keys) == 5
        for key in keys:
            assert load_key(key).seed.hex() not in "".join(texts.values())
        assert "a secret payload" not in "".join(texts.values())
