"""Trials as text, JSON and a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.unit.trials.sample import all_tried, tried_acks_1, tried_in_flight
from veristream.report.chart import ASCII
from veristream.report.text import Look
from veristream.trials import html, text
from veristream.trials import json as as_json
from veristream.trials.words import tell_agreement

Golden = Callable[[str, str], None]


def test_text(golden: Golden) -> None:
    golden("trials/trials.txt", text.render_trials(all_tried()))


def test_text_on_a_narrow_terminal_without_unicode(golden: Golden) -> None:
    shown = text.render_trials(all_tried(), Look(ASCII, width=76))
    assert max(map(len, shown.splitlines())) <= 76
    assert shown.isascii()
    golden("trials/trials_narrow.txt", shown)


def test_colours_say_what_needs_a_look() -> None:
    shown = text.render_trials(all_tried(), Look(colour=True))
    assert re.findall(r"\x1b\[(\d+)m(.*?)\x1b\[0m", shown) == [
        ("32", "agrees"),
        ("33", "differs"),
        ("33", "not observable"),
        ("31", "differs"),
        ("32", "agrees"),
    ]


def test_json(golden: Golden) -> None:
    golden("trials/trials.json", as_json.render_trials(all_tried()))


def test_json_has_the_keys_that_others_read() -> None:
    first, second, _ = json.loads(as_json.render_trials(all_tried()))["trials"]
    assert first.keys() >= {"broker", "trial", "settings", "results"}
    keys = {"property", "model", "model_property", "model_verdict", "verdict", "reason", "agrees"}
    assert all(one.keys() >= {*keys, "explanation"} for one in first["results"])
    assert [one["agrees"] for one in first["results"]] == [True, False, None]
    assert [one["agrees"] for one in second["results"]] == [False]
    assert (second["results"][0]["model_verdict"], second["results"][0]["verdict"]) == ("holds", "violated")


def test_page(golden: Golden) -> None:
    page = html.render_trials(all_tried())
    assert page.count("Messages received over time") == 3 * 3, "a plot with a title and a caption each"
    assert page.count("message sequence chart of 2 events") == 3, "a witness of each loss"
    anchors = re.findall(r'href="#([\w-]+)"', page)
    assert set(anchors) == {"kafka-acks-1", "kafka-acks-all", "nsq-in-flight"}
    assert all(f'id="{one}"' in page for one in anchors)
    golden("trials/trials.html", re.sub(r"<style>.*?</style>", "<style></style>", page, flags=re.DOTALL))


def test_a_page_hides_what_nobody_compares_and_nobody_can_decide() -> None:
    page = html.render_trials([tried_in_flight()])
    assert "came once each" in page, "it was not compared, but it was decided"
    assert page.count("not observable") == 0


def test_counts_are_in_words() -> None:
    assert tell_agreement([tried_in_flight()]) == "1 configuration: 1 of 1 verdict agree"
    assert tell_agreement([tried_acks_1()]) == (
        "1 configuration: 1 of 3 verdicts agree, 1 differs (explained), 1 not observable"
    )
    assert tell_agreement(all_tried()) == (
        "3 configurations: 2 of 5 verdicts agree, 2 differ (1 unexplained), 1 not observable"
    )
