"""Timed networks from short texts, and their verdicts."""

from __future__ import annotations

from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search.engine import check
from veristream.search.limits import Limits, Report, silent
from veristream.source import Source
from veristream.verdict import Result, Verdict


def timed_network(text: str) -> Network:
    """The verified network of a text without its first line."""
    network = read_network(Source("m.net", f"network m timed\n{text}"))
    verify(network)
    return network


def results_of(text: str, limits: Limits | None = None, report: Report = silent) -> tuple[Result, ...]:
    """The results of all properties of the text, in their order."""
    network = timed_network(text)
    return check(network, network.properties, limits or Limits(), report)


def result_of(text: str, claim: str, limits: Limits | None = None, report: Report = silent) -> Result:
    """The result of one claim about the network of the text."""
    (result,) = results_of(f"{text}\nproperty p: {claim}", limits, report)
    return result


def verdict_of(text: str, claim: str, limits: Limits | None = None, report: Report = silent) -> Verdict:
    """The verdict on one claim about the network of the text."""
    return result_of(text, claim, limits, report).verdict
