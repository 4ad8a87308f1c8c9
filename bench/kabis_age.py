"""How the age of a Kabis chain shows: what clients and parties need after many batches.

The chain is made by `veristream_testing.long_chain` with the parties' own code, 100 batches in a block. The
ledger keeps the last 10,000 batches, validators keep 200 blocks and take snapshots as by default: here,
every 5,000 transactions. The chain ends shortly before the next one, so that most is applied again.
Then real validators serve copies of it over loopback, and a storage party without batches follows it: first
from a snapshot, then again from the view of the chain that it saved. CPU time and memory are those of the
whole process, with the start of Python.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.request import urlopen

from _measure import finish, say, table

from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import Replica
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.ordering.snapshots import Retained
from veristream.kabis.protocol.genesis import Genesis, load_genesis, to_json
from veristream.kabis.protocol.keys import save_key
from veristream.kabis.wire.handshake import Identity, Role
from veristream.kabis.wire.ports import HOST, draw_ports
from veristream_testing.long_chain import (
    CHAIN,
    STORAGE,
    VALIDATORS,
    Growth,
    LongChain,
    key_of,
    make_genesis,
)

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
QUICK_BATCHES = 100_000
RETAINED = Retained(keep_blocks=200)
SINCE_SNAPSHOT = 4_800  # batches
GROWTH = Growth(batches_per_block=100, keep_batches=10_000, retained=RETAINED, segment_bytes=1 << 20)
PATIENCE_S = 300.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
MIB = 1 << 20
OPEN_CPU_S_MAX = 2.0
OPEN_MIB_MAX = 100.0


@dataclass(frozen=True, slots=True)
class Age:
    """What the parties of a chain with so many batches need; the height is that of its last block."""

    batches: int
    height: int
    make_cpu_s: float
    open_cpu_s: float
    open_mib: float
    restart_cpu_s: float
    restart_mib: float
    join_cpu_s: float
    join_mib: float
    storage_join_cpu_s: float
    storage_join_mib: float
    storage_restart_cpu_s: float
    storage_restart_mib: float
    disk_mib: float


def main() -> None:
    """Measures every size, prints the table and draws the plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"up to {QUICK_BATCHES:,} batches")
    parser.add_argument("--batches", type=int, default=SIZES[-1], help="measure sizes up to this one")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)  # the child that opens a client
    given = parser.parse_args()
    if given.open is not None:
        open_client(load_genesis(given.open))
        return
    most = QUICK_BATCHES if given.quick else given.batches
    with tempfile.TemporaryDirectory(prefix="kabis-age-") as folder:
        ages = measure_all(Path(folder), [size for size in SIZES if size <= most])
    report(ages)


def measure_all(folder: Path, sizes: Sequence[int]) -> list[Age]:
    """Lets one chain grow, and measures copies of it at every size."""
    ports = draw_ports(len(VALIDATORS))
    genesis = make_genesis(tuple(f"{HOST}:{port}" for port in ports))
    (folder / "genesis.json").write_text(to_json(genesis), encoding="utf-8")
    (folder / "kabis.toml").write_text(
        f"[snapshots]\nevery_blocks = {RETAINED.every_blocks}\nkeep_blocks = {RETAINED.keep_blocks}\n"
        f"segment_bytes = {GROWTH.segment_bytes}\n",
        encoding="utf-8",
    )
    ages = []
    with LongChain(folder / "chain", genesis, GROWTH) as chain:
        for batches in sizes:
            began_s = time.process_time()
            chain.grow(batches + SINCE_SNAPSHOT)
            chain.sync()
            say(f"{batches:,} batches, height {chain.height:,}")
            ages.append(measure(folder, genesis, chain, time.process_time() - began_s))
    return ages


def measure(folder: Path, genesis: Genesis, chain: LongChain, make_cpu_s: float) -> Age:
    """Starts validators on copies of the chain, the last one without any blocks."""
    validators = []
    try:
        for name in VALIDATORS[:-1]:
            validators.append(start(folder, name, folder / "chain"))
        wait_until_ready(folder, validators)
        restarted = cost_of(validators[0])
        disk_mib = sum(path.stat().st_size for path in (folder / "v0").rglob("*") if path.is_file()) / MIB
        command = [sys.executable, __file__, "--open", str(folder / "genesis.json")]
        opened = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert opened["height"] == chain.height, "the client is not at the end of the chain"
        validators.append(start(folder, VALIDATORS[-1], None))
        asyncio.run(reach(genesis, len(VALIDATORS) - 1, chain.height))
        joined = cost_of(validators[-1])
        storage = [*run_storage(folder, chain.height, anew=True), *run_storage(folder, chain.height)]
    finally:
        for process in validators:
            process.kill()
            process.wait()
    return Age(
        chain.batches,
        chain.height,
        make_cpu_s,
        opened["cpu_s"],
        opened["mib"],
        *restarted,
        *joined,
        *storage,
        disk_mib,
    )


def start(folder: Path, name: str, source: Path | None) -> subprocess.Popen[bytes]:
    """Starts a validator in a fresh folder, with a copy of a chain or without."""
    own = folder / name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    save_key(own / "key", key_of(name))
    if source is not None:
        for part in ("blocks", "snapshots"):
            shutil.copytree(source / part, own / part)
        Log(own / "records").close()  # a validator that has blocks, but no votes, does not start
    words = ["--genesis", str(folder / "genesis.json"), "--folder", str(own), "--name", name]
    module = ["-m", "veristream.kabis.cluster.validator_process"]
    settings = ["--settings", str(folder / "kabis.toml")]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen([sys.executable, *module, *words, *settings], stderr=log)


def run_storage(folder: Path, height: int, *, anew: bool = False) -> tuple[float, float]:
    """Runs a storage party until it has followed the chain; returns what that cost."""
    name, (port,) = STORAGE[0], draw_ports(1)
    own = folder / name
    if anew:
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        save_key(own / "key", key_of(name))
    module = ["-m", "veristream.kabis.cluster.storage_process", "--folder", str(own / "log")]
    words = ["--genesis", str(folder / "genesis.json"), "--key", str(own / "key"), "--party", name]
    command = [sys.executable, *module, *words, "--follow", "--metrics-port", str(port)]
    with (folder / f"{name}.log").open("ab") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            until_s = time.monotonic() + PATIENCE_S
            while read_height(port) < height:
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError((folder / f"{name}.log").read_text(encoding="utf-8"))
                time.sleep(0.1)
            return cost_of(process)
        finally:
            process.send_signal(signal.SIGTERM)  # it saves its view of the chain


def read_height(port: int) -> int:
    """Returns the height that a party has followed; -1 as long as it does not answer."""
    try:
        with urlopen(f"http://{HOST}:{port}/health", timeout=PATIENCE_S) as page:
            return int(json.load(page)["height"])
    except OSError:
        return -1


def wait_until_ready(folder: Path, validators: Sequence[subprocess.Popen[bytes]]) -> None:
    """Waits until the validators answer; raises RuntimeError with the log of one that ended."""
    for name, process in zip(VALIDATORS, validators, strict=False):
        while not (folder / name / "ready").exists():
            if process.poll() is not None:
                raise RuntimeError((folder / f"{name}.log").read_text(encoding="utf-8"))
            time.sleep(0.02)


def cost_of(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Returns the CPU seconds of a process so far, and the most memory that it had, in MiB."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    peak_kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) * TICK_S, int(peak_kib) / 1024


async def reach(genesis: Genesis, validator: int, height: int) -> None:
    """Waits until a validator has reached a height."""
    client = OrderingClient(genesis, Identity(CHAIN, Role.PRODUCER, "alice", key_of("alice")), PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        while (await client.status_of(validator)).height < height:
            await asyncio.sleep(0.05)
    await client.close()


def open_client(genesis: Genesis) -> None:
    """Opens a client in this process; prints what it needed."""

    async def follow() -> int:
        identity = Identity(CHAIN, Role.PRODUCER, "alice", key_of("alice"))
        replica = Replica(genesis, Channels((), OrderingClient(genesis, identity)))
        await replica.follow_to_end()
        await replica.channels.close()
        return replica.ledger.height

    height = asyncio.run(follow())
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = {"height": height, "cpu_s": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024}
    say(json.dumps(cost))


COLUMNS = ("open", "restart", "join", "storage_join", "storage_restart")


def report(ages: Sequence[Age]) -> None:
    """Prints the table, draws the plots, and prints the figures as the last line."""
    head = ["batches", "blocks", "disk"]
    for name in COLUMNS:
        head += [name.replace("_", " "), ""]
    rows = []
    for each in ages:
        row = [f"{each.batches:,}", f"{each.height:,}", f"{each.disk_mib:.1f} MiB"]
        for name in COLUMNS:
            row += [f"{getattr(each, f'{name}_cpu_s'):.2f} s", f"{getattr(each, f'{name}_mib'):.0f} MiB"]
        rows.append(row)
    table("CPU time and memory by the age of the chain", head, rows)
    draw(ages, Path(__file__).parent / "results")
    first, last = asdict(ages[0]), asdict(ages[-1])
    figures = {name: value for name, value in last.items() if name not in ("batches", "height")}
    names = [f"{name}_cpu_s" for name in COLUMNS]
    ratios = {f"{name}_first_to_last": first[name] / last[name] for name in names}
    finish("kabis_age", ratios, figures | {"ages": [asdict(each) for each in ages]})


def draw(ages: Sequence[Age], folder: Path) -> None:
    """Draws CPU time, memory and disk over the number of batches, as SVG and PNG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    folder.mkdir(exist_ok=True)
    figure = Figure(figsize=(12, 4), layout="constrained")
    plots = figure.subplots(1, 3)
    kinds = (
        ("CPU time (s)", COLUMNS, "_cpu_s", OPEN_CPU_S_MAX),
        ("memory (MiB)", COLUMNS, "_mib", OPEN_MIB_MAX),
        ("a validator's disk (MiB)", ("disk",), "_mib", None),
    )
    sizes = [each.batches for each in ages]
    for axes, (unit, names, suffix, bar) in zip(plots, kinds, strict=True):
        for name in names:
            values = [getattr(each, name + suffix) for each in ages]
            axes.plot(sizes, values, marker="o", markersize=4, label=name.replace("_", " "))
        if bar is not None:
            axes.axhline(bar, color="grey", linestyle="--", linewidth=1, label="limit of open")
        axes.set(xscale="log", xlabel="batches", ylabel=unit, xticks=sizes)
        axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size / 1000:,.0f}k"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(visible=True, alpha=0.3)
        axes.legend(ncols=2, fontsize="small", loc="upper left")
    for suffix in (".svg", ".png"):
        figure.savefig(folder / f"kabis-age{suffix}", dpi=150)


if __name__ == "__main__":
    main()
