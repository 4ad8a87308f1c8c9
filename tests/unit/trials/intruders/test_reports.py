"""Attacks as text, JSON and a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.unit.trials.intruders.sample import surprising, well
from tests.unit.trials.sample import tried_in_flight
from veristream.report.chart import ASCII
from veristream.report.text import Look
from veristream.trials import html
from veristream.trials import json as as_json
from veristream.trials.intruders.text import render_attacks
from veristream.trials.intruders.words import tell_agreement

Golden = Callable[[str, str], None]


def test_text(golden: Golden) -> None:
    golden("trials/attacks.txt", render_attacks([well(), surprising()]))


def test_text_on_a_narrow_terminal_without_unicode() -> None:
    shown = render_attacks([well(), surprising()], Look(ASCII, width=76))
    assert max(map(len, shown.splitlines())) <= 76
    assert shown.isascii()


def test_colours_say_what_needs_a_look() -> None:
    shown = render_attacks([well(), surprising()], Look(colour=True))
    assert re.findall(r"\x1b\[(\d+)m(.*?)\x1b\[0m", shown) == [
        ("32", "agrees"),
        ("33", "differs"),
        ("33", "succeeded"),
        ("32", "agrees"),
        ("31", "differs"),
    ]


def test_json(golden: Golden) -> None:
    golden("trials/attacks.json", as_json.render_trials([], [well()]))


def test_json_has_the_form_of_trials() -> None:
    trial, attacked = json.loads(as_json.render_trials([tried_in_flight()], [surprising()]))["trials"]
    assert attacked.keys() == trial.keys()
    (result,) = attacked["results"]
    assert result.keys() == trial["results"][0].keys() | {"expected"}
    assert (result["agrees"], result["expected"], result["verdict"]) == (False, False, "succeeded")


def test_page() -> None:
    page = html.render_trials([tried_in_flight()], [well(), surprising()])
    anchors = set(re.findall(r'href="#([\w-]+)"', page))
    assert anchors == {"nsq-in-flight", "kerberos-sasl-plaintext"}
    assert all(f'id="{one}"' in page for one in anchors)
    assert "expected: prevented, refused; nothing explains the difference" in page
    assert "Compared with no model." in page
    alone = html.render_trials([], [well()])
    assert "0 of 0" not in alone, "no trials, no words about them"


def test_counts_are_in_words() -> None:
    assert tell_agreement([well()]) == (
        "1 configuration: 2 of 4 outcomes agree with the models, 1 differs, 1 has no counterpart, "
        "all as expected"
    )
    assert tell_agreement([surprising()]) == (
        "1 configuration: 0 of 1 outcome agree with the models, 1 differs, 1 unexpected"
    )
