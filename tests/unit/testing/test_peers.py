"""What peers print is read rightly, and a missing peer says what to install."""

from __future__ import annotations

import pytest

from veristream.errors import EnvironmentFailure
from veristream_testing import peers
from veristream_testing.peers import find_spin, find_tlc, run_spin

SPIN_REPORT = """
(Spin Version 6.5.2 -- 6 December 2019)

Full statespace search for:
	never claim         	- (none specified)
	invalid end states	- (disabled by -E flag)

State-vector 36 byte, depth reached 83465, errors: {errors}
    94642 states, stored
   700712 states, matched
   795354 transitions (= stored+matched)

  184.030	total actual memory usage

pan: elapsed time 1.29 seconds
"""


@pytest.mark.parametrize(
    ("before", "errors", "verdict"),
    [
        ("", 0, "complete"),
        ("pan:1: invalid end state (at depth 3)\n", 1, "deadlock"),
        ("pan:1: assertion violated (v_x<=9) (at depth 3)\n", 1, "fault"),
        ("pan:1: assertion violated  !( !((v_x<4))) (at depth 0)\n", 1, "violated"),
        ("pan:1: acceptance cycle (at depth 4)\n", 1, "violated"),
        ("error: max search depth too small\n", 0, "unfinished"),
    ],
)
def test_spins_report_is_read(before: str, errors: int, verdict: str) -> None:
    run = peers.read_spin(before + SPIN_REPORT.format(errors=errors), 2.0, 1.5)
    assert (run.distinct_states, run.transitions) == (94642, 795353)
    assert (run.compile_seconds, run.search_seconds, run.wall_seconds) == (2.0, 1.29, 3.5)
    assert run.memory_mib == 184.03
    assert run.verdict == verdict


def test_a_report_without_counts_is_unfinished() -> None:
    run = peers.read_spin("pan: out of memory\n", 2.0, 1.5)
    assert run.distinct_states is None
    assert run.verdict == "unfinished"


TLC_REPORT = [
    (1.0, "Computing initial states...\n"),
    (
        2.0,
        "Progress(5): 1,234 states generated (1 s/min), 1,000 distinct states found, 9 left\n",
    ),
    (3.0, "{result}\n"),
    (3.25, "21646 states generated, 5478 distinct states found, 0 states left on queue.\n"),
    (3.5, "Finished in 03s\n"),
]


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        ("Model checking completed. No error has been found.", "complete"),
        ("Error: Invariant always_low is violated.", "violated"),
        ("Error: Deadlock reached.", "deadlock"),
        ("The first argument of Assert evaluated to FALSE; the second argument was:", "fault"),
        ("aborted: out of time", "unfinished"),
    ],
)
def test_tlcs_report_is_read(result: str, verdict: str) -> None:
    lines = [peers.Line(seconds, text.format(result=result)) for seconds, text in TLC_REPORT]
    run = peers.read_tlc(lines, 4.0)
    assert (run.distinct_states, run.transitions) == (5478, 21645)
    assert (run.compile_seconds, run.search_seconds, run.wall_seconds) == (1.0, 2.5, 4.0)
    assert run.verdict == verdict


def test_a_missing_peer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EnvironmentFailure) as spin:
        find_spin()
    assert "spin" in spin.value.hint
    with pytest.raises(EnvironmentFailure) as java:
        find_tlc()
    assert "JDK" in java.value.hint
    with pytest.raises(EnvironmentFailure):
        run_spin("", timeout_s=1.0)
