"""The expectations of attacks: those that come with Veristream, and what is wrong with others."""

from __future__ import annotations

import re

import pytest

from tests.pages import DOCS
from veristream.brokers.kerberos.secured import Security
from veristream.errors import ModelError
from veristream.trials.comparison import verdict_of
from veristream.trials.intruders.attacks import Attack, Outcome
from veristream.trials.intruders.outcomes import Configuration, Expected, read, read_shipped
from veristream.trials.run import find_models

KNOWN = find_models()
ONLY_WITH_TICKETS = {
    Attack.PRODUCE_AS_ITSELF,
    Attack.CONSUME_AS_ITSELF,
    Attack.PRODUCE_WITH_FORGED_TICKET,
}

GOOD = """
[[configuration]]
name = "one"
about = "About it."
protocol = "SASL_SSL"
acls = true

[[configuration.attack]]
name = "produce-as-itself"
outcome = "prevented"
evidence = "authorization failed"
why = "no model"

[[configuration.attack]]
name = "overhear-producer"
outcome = "prevented"
evidence = "0 of 10"
model = "kafka_secured"
property = "System_FakingP() reaches DataP_Leaking_Success"
"""


def test_every_threat_is_tried_on_every_configuration() -> None:
    """Without tickets, everybody is without one: an intruder who has its own is no case of its own."""
    *found, no_cache = read_shipped()
    assert [one.name for one in found] == ["plaintext", "sasl-plaintext", "sasl-ssl", "sasl-ssl-acls"]
    assert not no_cache.security.replay_cache
    assert [each.attack for each in no_cache.expected] == [Attack.REPLAY_PRODUCER]
    for one in found:
        attacks = {each.attack for each in one.expected}
        assert attacks == set(Attack) - (set() if one.security.kerberos else ONLY_WITH_TICKETS), one.name


@pytest.mark.parametrize("configuration", read_shipped(), ids=lambda one: one.name)
def test_a_configuration_names_what_exists(configuration: Configuration) -> None:
    assert configuration.about.endswith(".")
    for one in configuration.expected:
        if one.counterpart is not None:
            known = KNOWN[one.counterpart.model]
            possible = verdict_of(known, one.counterpart.property) == "holds"
            assert possible == (one.outcome is Outcome.SUCCEEDED) or one.why, one


def test_a_file_is_read() -> None:
    (one,) = read(GOOD)
    assert (one.name, one.security) == ("one", Security("SASL_SSL", acls=True, replay_cache=True))
    assert one.settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "allow.everyone.if.no.acl.found": "false",
    }
    assert one.expected[0] == Expected(
        Attack.PRODUCE_AS_ITSELF, Outcome.PREVENTED, "authorization failed", None, "no model"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[[configuration]]", "[configuration", "is not TOML"),
        ("[[configuration]]", "x = 1\n[[configuration]]", r"does not consist of \[\[configuration\]\]"),
        ('name = "one"', "", "`name` is missing"),
        ("acls = true", 'acls = "yes"', "`acls` is not a bool"),
        ("acls = true", "acls = true\ncolour = 1", "unknown key `colour`"),
        ('"SASL_SSL"', '"SSL"', "protocol is 'SSL'"),
        ('"SASL_SSL"', '"PLAINTEXT"', "rules need names"),
        ('"produce-as-itself"', '"produce-as-king"', "name is 'produce-as-king'"),
        ('outcome = "prevented"', 'outcome = "perhaps"', "outcome is 'perhaps'"),
        ('"produce-as-itself"', '"overhear-producer"', "has twice 'overhear-producer'"),
        ('evidence = "authorization failed"', 'evidence = ""', "evidence is empty"),
        ('why = "no model"', "", "`why` must say why there is none"),
        ('model = "kafka_secured"', "", "model and property need each other"),
        (" reaches ", " |= []", "does not say what is reached"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(ModelError, match=told):
        read(GOOD.replace(old, new, 1))


def test_a_broker_may_forget_what_it_has_seen() -> None:
    (one,) = read(GOOD.replace("acls = true", "acls = false\nreplay_cache = false"))
    assert one.security == Security("SASL_SSL", acls=False, replay_cache=False)
    assert one.settings["sun.security.krb5.rcache"] == "none"


def test_a_name_is_used_once() -> None:
    with pytest.raises(ModelError, match="two configurations are called 'one'"):
        read(GOOD + GOOD)


def test_the_page_has_the_same_table() -> None:
    """Each cell has the outcome, and the model's verdict in brackets."""
    page = (DOCS / "kerberos-real.md").read_text(encoding="utf-8")
    head = re.search(r"^\| attack \|(.+)\|$", page, re.MULTILINE)
    assert head is not None
    names = [each.strip(" `") for each in head[1].split("|")]
    rows = re.findall(r"^\| `([a-z-]+)`.*?\|(.*)\|$", page, re.MULTILINE)
    shown = {
        (name, attack): cell.strip().replace("*", "")
        for attack, cells in rows
        if attack in list(Attack)
        for name, cell in zip(names, cells.split("|"), strict=True)
        if cell.strip()
    }
    words = {Outcome.SUCCEEDED: "yes", Outcome.PREVENTED: "no"}
    expected = {}
    for configuration in read_shipped():
        for one in configuration.expected if configuration.name in names else ():
            said = "–"
            if (named := one.counterpart) is not None:
                said = "yes" if verdict_of(KNOWN[named.model], named.property) == "holds" else "no"
            expected[configuration.name, one.attack.value] = f"{words[one.outcome]} ({said})"
    assert shown == expected
    assert len(expected) == 41
