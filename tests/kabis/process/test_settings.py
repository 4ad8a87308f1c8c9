"""`kabis.toml`: what it sets, and where its mistakes are."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.errors import ModelError
from veristream.kabis.process.settings import (
    PartySettings,
    Settings,
    load_settings,
    parse_settings,
    to_toml,
)
from veristream.kabis.wire.connection import Limits
from veristream.source import Source

WHOLE = """
[log]
level = "debug"
bytes_max = 20000
files_max = 2

[limits]
idle_s = 20

[quotas]
connections_max = 64

[retention]
bytes_max = 1000000

[metrics]
port = 9100

[supervisor]
last_s = 5.5

[parties.validator-1]
listen = "127.0.0.1:4000"

[parties."storage-1"]
metrics_port = 9200
"""


def parse(text: str) -> Settings:
    return parse_settings(Source("kabis.toml", text))


def test_without_a_file_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "kabis.toml") == load_settings(None) == Settings()
    assert Settings().to_limits() == Limits()


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "kabis.toml"
    path.write_text(WHOLE, encoding="utf-8")
    settings = load_settings(path)
    assert (settings.log.level, settings.log.bytes_max, settings.log.files_max) == ("debug", 20_000, 2)
    assert settings.to_limits().quotas.connections_max == 64
    assert settings.to_limits().idle_s == 20
    assert settings.supervisor.last_s == 5.5
    assert settings.party("validator-1") == PartySettings(listen="127.0.0.1:4000")
    assert settings.party("storage-2") == PartySettings()
    assert [settings.metrics_port(name, n) for n, name in enumerate(("validator-1", "storage-1"))] == [
        9100,
        9200,
    ]
    assert Settings().metrics_port("storage-1", 3) == 0


def test_what_is_printed_is_read_back() -> None:
    for settings in (Settings(), parse(WHOLE)):
        assert parse(to_toml(settings)) == settings


@pytest.mark.parametrize(
    ("text", "message", "line", "hint"),
    [
        ("[log]\nlevle = 'info'", "unknown key `levle`", 2, "did you mean `level`?"),
        ("[log]\n\n[limts]\n", "unknown table `limts`", 3, "did you mean `limits`?"),
        ("[parties.storage-1]\nlisen = ''", "unknown key `lisen`", 2, "did you mean `listen`?"),
        ("\nlog = 3", "`log` is a table", 2, "write [log]"),
        ("[parties]\nstorage-1 = 3", "`parties.storage-1` is a table", 2, "write [parties.storage-1]"),
        ("[log]\nlevel = 3", "`level` is a text in quotes, not 3", 2, ""),
        ("[metrics]\nport = true", "`port` is a whole number, not True", 2, ""),
        ("[metrics]\nport = 1.5", "`port` is a whole number, not 1.5", 2, ""),
        ("[metrics]\nport = -1", "`port` is at least 0, not -1", 2, ""),
        ("[metrics]\nport = 70000", "`port` is at most 65535, not 70000", 2, ""),
        ("[quotas]\n# few\nconnections_max = 1", "`connections_max` is at least 8, not 1", 3, ""),
        ("[quotas]\nfiles_reserved = 0", "`files_reserved` is at least 1, not 0", 2, ""),
        ("[quotas]\nbytes_per_s = nan", "`bytes_per_s` is greater than 0, not nan", 2, ""),
        ("[quotas]\nbytes_per_s = inf", "`bytes_per_s` is greater than 0, not inf", 2, ""),
        ("[limits]\nidle_s = 0", "`idle_s` is greater than 0, not 0", 2, ""),
        ("[limits]\nidle_s = nan", "`idle_s` is greater than 0, not nan", 2, ""),
        ("[log]\nlevel = 'loud'", "unknown level `loud`", 2, "use one of debug, info, warning, error"),
        ("[parties.a]\nlisten = 'here'", "'here' is no address: HOST:PORT", 2, ""),
        ("log.level = 'warnin'", "unknown level `warnin`", 1, "did you mean `warning`?"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, message: str, line: int, hint: str) -> None:
    with pytest.raises(ModelError) as told:
        parse(text)
    assert (told.value.message, told.value.span.line, told.value.hint) == (message, line, hint)


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as told:
        parse("[log]\nlevel = \n")
    assert told.value.span.line == 2
    assert "Invalid value" in told.value.message
    path = tmp_path / "kabis.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ModelError, match="is not UTF-8 text"):
        load_settings(path)
