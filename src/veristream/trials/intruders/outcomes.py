"""Reads `outcomes.toml`: the configurations, what intruders try on each, and what is expected of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, get_args

from veristream.brokers.kerberos.secured import Protocol, Security
from veristream.errors import ModelError
from veristream.trials.intruders.attacks import Attack, Outcome

FILE: Final = "outcomes.toml"
BROKER: Final = "kerberos"
"""What the configurations are called where brokers are chosen: a Kafka whose clients may need tickets."""
_CONFIGURATION: Final = {
    "name": str,
    "about": str,
    "protocol": str,
    "acls": bool,
    "replay_cache": bool,
    "attack": list,
}
_ATTACK: Final = {"name": str, "outcome": str, "evidence": str, "why": str, "model": str, "property": str}
_OPTIONAL: Final = ("why", "model", "property")


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A property of a known model that says whether an attack is possible; it has the form `reaches`."""

    model: str
    property: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of an attack: its outcome, and words that the evidence contains.

    `why` says why the model says otherwise, or why no model says anything.
    """

    attack: Attack
    outcome: Outcome
    evidence: str
    counterpart: Counterpart | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A security of Kafka, and the attacks on it."""

    name: str
    about: str
    security: Security
    expected: tuple[Expected, ...]

    @property
    def title(self) -> str:
        """A name that no trial has."""
        return f"{BROKER} {self.name}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings that differ between configurations."""
        found: dict[str, str] = {"security.protocol": self.security.protocol}
        if self.security.kerberos:
            found["sasl.mechanism"] = "GSSAPI"
        if self.security.acls:
            found["allow.everyone.if.no.acl.found"] = "false"
        if not self.security.replay_cache:
            found["sun.security.krb5.rcache"] = "none"
        return found


@cache
def read_shipped() -> tuple[Configuration, ...]:
    """Returns the configurations that come with Veristream."""
    return read(resources.files("veristream.trials.intruders").joinpath(FILE).read_text(encoding="utf-8"))


def read(text: str) -> tuple[Configuration, ...]:
    """Returns the configurations of a file; raises ModelError that says what is wrong in which of them."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{FILE} is not TOML: {error}") from error
    if document.keys() != {"configuration"} or not isinstance(document["configuration"], list):
        raise ModelError(f"{FILE} does not consist of [[configuration]] tables")
    found = tuple(_configuration(each) for each in document["configuration"])
    _require_distinct((one.name for one in found), "two configurations are called")
    return found


def _configuration(table: Any) -> Configuration:
    place = f"configuration {table.get('name', '')!r}" if isinstance(table, dict) else "configuration"
    _require_keys(table, _CONFIGURATION, ("replay_cache",), place)
    if table["protocol"] not in get_args(Protocol):
        raise _wrong(place, "protocol", table["protocol"], get_args(Protocol))
    security = Security(table["protocol"], table["acls"], table.get("replay_cache", True))
    if security.acls and not security.kerberos:
        raise ModelError(f"{FILE}, {place}: rules need names, and names need Kerberos")
    expected = tuple(_expected(each, place) for each in table["attack"])
    _require_distinct((one.attack for one in expected), f"{FILE}, {place} has twice")
    return Configuration(table["name"], table["about"], security, expected)


def _expected(table: Any, place: str) -> Expected:
    place = f"{place}, attack {table.get('name', '')!r}" if isinstance(table, dict) else place
    _require_keys(table, _ATTACK, _OPTIONAL, place)
    for key, kind in (("name", Attack), ("outcome", Outcome)):
        if table[key] not in list(kind):
            raise _wrong(place, key, table[key], list(kind))
    if not table["evidence"]:
        raise ModelError(f"{FILE}, {place}: evidence is empty, so that any evidence would do")
    why, model, name = (table.get(key, "") for key in _OPTIONAL)
    if bool(model) != bool(name):
        raise ModelError(f"{FILE}, {place}: model and property need each other")
    if name and " reaches " not in name:
        raise ModelError(f"{FILE}, {place}: {name!r} does not say what is reached")
    if not name and not why:
        raise ModelError(f"{FILE}, {place}: without a model, `why` must say why there is none")
    counterpart = Counterpart(model, name) if name else None
    return Expected(Attack(table["name"]), Outcome(table["outcome"]), table["evidence"], counterpart, why)


def _require_keys(table: Any, kinds: Mapping[str, type], optional: Iterable[str], place: str) -> None:
    if not isinstance(table, dict):
        raise ModelError(f"{FILE}, {place}: not a table")
    for key in kinds:
        if key not in table and key not in optional:
            raise ModelError(f"{FILE}, {place}: `{key}` is missing")
    for key, value in table.items():
        if key not in kinds:
            raise ModelError(
                f"{FILE}, {place}: unknown key `{key}`", hint=f"choose from {', '.join(kinds)}"
            )
        if type(value) is not kinds[key]:
            raise ModelError(f"{FILE}, {place}: `{key}` is not a {kinds[key].__name__}")


def _wrong(place: str, key: str, value: object, choices: Iterable[str]) -> ModelError:
    return ModelError(f"{FILE}, {place}: {key} is {value!r}", hint=f"choose from {', '.join(choices)}")


def _require_distinct(names: Iterable[str], problem: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{problem} {str(name)!r}")
        seen.add(name)
