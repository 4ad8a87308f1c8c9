"""The settings of a cluster's parties: `kabis.toml` in its folder. Without the file, defaults hold.

Every table is a dataclass here, and every key one of its fields. An unknown key, a wrong type and a number
that is out of range are errors with their line. `[parties.NAME]` has what only one party needs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from veristream.errors import EnvironmentFailure, ModelError, unknown
from veristream.kabis.wire.connection import Limits
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.quotas import Quotas
from veristream.source import NOWHERE, Source, Span

FILE = "kabis.toml"
LEVELS = ("debug", "info", "warning", "error")
_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log of each party: its level, and when it is rotated."""

    level: str = "info"
    bytes_max: int = 10_000_000
    files_max: int = 5


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What one party grants each connection."""

    requests_max: int = Limits().requests_max
    request_bytes_max: int = Limits().request_bytes_max
    handshake_s: float = Limits().handshake_s
    stall_s: float = Limits().stall_s
    idle_s: float = Limits().idle_s

    def to_limits(self, quotas: Quotas) -> Limits:
        """Returns them as limits of connections, with the quotas of all peers together."""
        return Limits(**{each.name: getattr(self, each.name) for each in fields(self)}, quotas=quotas)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What a storage party deletes without an ordered mark; 0 is no limit."""

    bytes_max: int = 0
    age_s: int = 0
    every_s: float = 10.0
    segment_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class WaitingSettings:
    """How much a storage party stores of what the chain has not admitted yet."""

    producer_batches: int = 4096
    producer_bytes: int = 64 << 20
    total_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """After how many blocks a validator takes a snapshot, and how many blocks it keeps; 0 keeps all."""

    every_blocks: int = 1000
    keep_blocks: int = 0
    segment_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The first of the consecutive loopback ports of /metrics and /health; 0 serves none."""

    port: int = 0


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """How parties that died are restarted."""

    first_s: float = 0.5
    last_s: float = 60.0
    stable_s: float = 60.0
    failures_max: int = 8


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of all connections, on if `ca` is given; paths of PEM files, relative to the file's folder.

    `ca` is whom parties and clients trust. `certificate` and `key` are what the folder's clients present
    if parties admit only callers with a certificate of `client_ca`.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class PartySettings:
    """What only one party needs: where it listens, its port of /metrics and /health, its certificate."""

    listen: str = ""
    metrics_port: int = 0
    tls_certificate: str = ""
    tls_key: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `parties` by name."""

    log: LogSettings = field(default_factory=LogSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    quotas: Quotas = field(default_factory=Quotas)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    waiting: WaitingSettings = field(default_factory=WaitingSettings)
    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    supervisor: SupervisorSettings = field(default_factory=SupervisorSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    parties: Mapping[str, PartySettings] = field(default_factory=dict)

    def to_limits(self) -> Limits:
        """Returns what a party grants its peers."""
        return self.limits.to_limits(self.quotas)

    def party(self, name: str) -> PartySettings:
        """Returns what only this party needs."""
        return self.parties.get(name, PartySettings())

    def metrics_port(self, name: str, number: int) -> int:
        """Returns the port of a party's metrics, given its number in the cluster; 0 if there is none."""
        return self.party(name).metrics_port or (self.metrics.port and self.metrics.port + number)


_LOWEST: Mapping[str, int] = {
    "log.bytes_max": 10_000,
    "log.files_max": 2,
    **{f"quotas.{each.name}": 1 for each in fields(Quotas)},
    "quotas.connections_max": 8,
    "limits.requests_max": 1,
    "limits.request_bytes_max": 1 << 20,
    "retention.segment_bytes": 1 << 16,
    "waiting.producer_batches": 1,
    "waiting.producer_bytes": 8 << 20,
    "waiting.total_bytes": 8 << 20,
    "snapshots.every_blocks": 1,
    "snapshots.segment_bytes": 1 << 16,
    "supervisor.failures_max": 1,
}
_POSITIVE = ("handshake_s", "stall_s", "idle_s", "every_s", "first_s", "last_s", "stable_s")
_RATES = tuple(each.name for each in fields(Quotas) if each.name.endswith("_s"))


def load_settings(path: Path | None) -> Settings:
    """Reads the file; defaults hold if there is none. Raises ModelError with the line of a mistake."""
    if path is None:
        return Settings()
    try:
        source = Source(str(path), path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {path}: {error.strerror}") from error
    return parse_settings(source)


def parse_settings(source: Source) -> Settings:
    """Parses the text of `kabis.toml`."""
    try:
        given = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(str(error), _place_of(source, str(error))) from error
    kinds = {each.name: each for each in fields(Settings)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in kinds:
            raise unknown("table", name, kinds, find_key(source, name), f"it has {', '.join(kinds)}")
        if not isinstance(value, dict):
            raise ModelError(f"`{name}` is a table", find_key(source, name), f"write [{name}]")
        if name == "parties":
            found[name] = {
                party: _read_table(source, f"parties.{party}", PartySettings, table)
                for party, table in value.items()
            }
        else:
            found[name] = _read_table(source, name, get_type_hints(Settings)[name], value)
    settings = Settings(**found)
    _check_tls(source, settings)
    return settings


def _check_tls(source: Source, settings: Settings) -> None:
    """Raises ModelError for files that nobody would use, lest somebody believe that TLS is on."""
    tables: dict[str, Any] = {"tls": settings.tls}
    tables |= {f"parties.{name}": party for name, party in settings.parties.items()}
    for name, table in tables.items():
        of_party = name != "tls"
        certificate, key = ("tls_certificate", "tls_key") if of_party else ("certificate", "key")
        for one, other in ((certificate, key), (key, certificate)):
            if getattr(table, one) and not getattr(table, other):
                span = find_key(source, f"{name}.{one}")
                raise ModelError(f"`{one}` without `{other}`", span, f"[{name}] needs both or neither")
        for each in (certificate,) if of_party else (certificate, "client_ca"):
            if getattr(table, each) and not settings.tls.ca:
                hint = "name a PEM file with `ca` under [tls]: it turns TLS on"
                raise ModelError(f"`{each}` without `ca`", find_key(source, f"{name}.{each}"), hint)


def _read_table(source: Source, name: str, kind: type[Any], given: object) -> Any:
    if not isinstance(given, dict):
        raise ModelError(f"`{name}` is a table", find_key(source, name), f"write [{name}]")
    hints = get_type_hints(kind)
    for key, value in given.items():
        span = find_key(source, f"{name}.{key}")
        if key not in hints:
            raise unknown("key", key, hints, span, f"[{name}] has {', '.join(hints)}")
        if type(value) is not hints[key] and not (hints[key] is float and type(value) is int):
            wanted = {int: "a whole number", float: "a number", str: "a text in quotes"}[hints[key]]
            raise ModelError(f"`{key}` is {wanted}, not {value!r}", span)
        _check_value(f"{name}.{key}", value, span)
    return kind(**given)


def _check_value(path: str, value: object, span: Span) -> None:
    """Raises ModelError if a value of the right type makes no sense."""
    key = path.rpartition(".")[2]
    match value:
        case str() if key == "level" and value not in LEVELS:
            raise unknown("level", value, LEVELS, span, f"use one of {', '.join(LEVELS)}")
        case str() if key == "listen" and value:
            try:
                Address.parse(value)
            except ValueError as error:
                raise ModelError(str(error), span) from error
        case int() | float() if value < (lowest := _LOWEST.get(path, 0)):
            raise ModelError(f"`{key}` is at least {lowest}, not {value}", span)
        case int() if key in ("port", "metrics_port") and value > _PORT_MAX:
            raise ModelError(f"`{key}` is at most {_PORT_MAX}, not {value}", span)
        case int() | float() if key in _POSITIVE + _RATES and not 0 < value < float("inf"):
            raise ModelError(f"`{key}` is greater than 0, not {value}", span)


def find_key(source: Source, path: str) -> Span:
    """Returns where a key or a table of this path is written; nowhere if it is written otherwise."""
    table, _, key = path.rpartition(".")
    begin, inside = 0, ""
    for line in source.text.splitlines(keepends=True):
        text = line.strip()
        if heading := re.match(r"\[+\s*([^\]]+?)\s*\]", text):
            inside = heading[1].replace('"', "").replace(" ", "")
            if inside == path or inside.startswith(path + "."):
                at = begin + line.index("[") + 1
                return Span(source, at, at + len(heading[1]))
        named = re.match(r"\s*\"?([\w.-]+)\"?\s*=", line)
        if named and (f"{inside}.{named[1]}".strip(".") == path or (inside == table and named[1] == key)):
            at = begin + named.start(1)
            return Span(source, at, at + len(named[1]))
        begin += len(line)
    return Span(source, 0, 0) if source.text else NOWHERE


def _place_of(source: Source, message: str) -> Span:
    """Returns the place that tomllib's message names."""
    at = re.search(r"at line (\d+), column (\d+)", message)
    if at is None:
        return Span(source, len(source.text), len(source.text))
    lines = source.text.splitlines(keepends=True)
    start = sum(map(len, lines[: int(at[1]) - 1])) + int(at[2]) - 1
    return Span(source, start, start + 1)


def to_toml(settings: Settings) -> str:
    """Renders the effective settings as `kabis.toml` would have them."""
    tables = []
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value):
            tables.append(_render(each.name, value))
    tables += [_render(f"parties.{name}", party) for name, party in settings.parties.items()]
    return "\n".join(tables)


def _render(name: str, table: Any) -> str:
    def show(value: object) -> str:
        return f'"{value}"' if isinstance(value, str) else str(value)

    lines = [f"{each.name} = {show(getattr(table, each.name))}\n" for each in fields(table)]
    return f"[{name}]\n" + "".join(lines)
