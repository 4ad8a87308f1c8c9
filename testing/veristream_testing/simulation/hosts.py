"""Hosts that crash, restart and have timers, for the simulations of the consensus and of validators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from veristream_testing.simulation.scenario import HEAL_MS, Crash, Scenario
from veristream_testing.simulation.world import Happening, World


@dataclass(slots=True)
class CrashingHost:
    """A machine that runs a validator; twins are two hosts with one index.

    `dies_after` is the number of outputs that it still performs before it crashes, or None.
    """

    number: int
    index: int
    up: bool = field(default=True, kw_only=True)
    lives: int = field(default=1, kw_only=True)
    dies_after: int | None = field(default=None, kw_only=True)


AnyHost = TypeVar("AnyHost", bound=CrashingHost)


class HostWorld(World, ABC, Generic[AnyHost]):
    """A world with hosts that crash as the scenario says; `restarts` counts their restarts."""

    hosts: dict[int, AnyHost]

    def __init__(self, scenario: Scenario, random: Random) -> None:
        super().__init__(scenario, random)
        self.restarts = 0

    @abstractmethod
    def lose(self, host: AnyHost) -> None:
        """Loses what a crashed host had in memory, and perhaps the unsynced end of its disk."""

    @abstractmethod
    def revive(self, host: AnyHost) -> None:
        """Starts a host again from its disk."""

    def plan_crashes(self) -> None:
        """Schedules the crashes of the scenario."""
        for fault in self.scenario.faults:
            if isinstance(fault, Crash) and fault.host in self.hosts:
                self.at(fault.at_ms, self._doomer(fault))

    def survives(self, host: AnyHost) -> bool:
        """Counts an output of a host; crashes the host before the output if its time has come."""
        if host.dies_after is not None:
            if host.dies_after == 0:
                host.up, host.dies_after = False, None
                self.lose(host)
                return False
            host.dies_after -= 1
        return True

    def ring(self, host: AnyHost, delay_ms: int, happening: Happening) -> None:
        """Schedules a timer of a host; it is lost if the host crashes before."""
        life = host.lives

        def ring() -> None:
            if host.up and host.lives == life:
                happening()

        self.at(self.now_ms + delay_ms, ring)

    def _doomer(self, crash: Crash) -> Happening:
        host = self.hosts[crash.host]

        def doom() -> None:
            if host.up and host.dies_after is None:
                host.dies_after = crash.outputs
                self.at(min(self.now_ms + crash.down_ms, HEAL_MS), lambda: self._restart(host))

        return doom

    def _restart(self, host: AnyHost) -> None:
        if host.up:
            host.dies_after = None  # it produced too few outputs to crash
            return
        self.restarts += 1
        host.up, host.lives = True, host.lives + 1
        self.revive(host)
