"""Kernels in memory: compiled once, then loaded from a cache on disk.

The cache key covers the Network, what is watched, the code of this package, llvmlite's version and the
processor, so an entry is never stale; a damaged entry is recompiled.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as binding

from veristream.ir.network import Network
from veristream.kernel.layout import Layout, lay_out
from veristream.kernel.watch import Watch


@dataclass(frozen=True, slots=True)
class Kernel:
    """Native code of a Network: the addresses of its functions, and the layout of its rows.

    The addresses are valid as long as the kernel is referenced.
    """

    layout: Layout
    successors: int
    propositions: int
    measure: int
    terminated: int
    product: int  # 0 without a monitor
    reduced: int  # 0 without symmetries
    orbit: int  # 0 without symmetries
    timing: int  # 0 if the network is not timed, like the next three
    tests: int
    places: int
    urgent: int
    engine: Any  # owns the memory that the addresses point into


def load_kernel(network: Network, watch: Watch) -> Kernel:
    """Returns the network's kernel, from the cache if possible."""
    path = cache_directory() / f"{digest_of(network, watch)}.o"
    engine = _load_object(path)
    if engine is None:
        from veristream.kernel.emit import emit  # with all of llvmlite: not for what is cached

        text, _ = emit(network, watch)
        engine = _engine()
        code = _compile(text)
        _write(path, code)
        _add(engine, code)
    return Kernel(
        lay_out(network),
        engine.get_function_address("successors"),
        engine.get_function_address("propositions"),
        engine.get_function_address("measure"),
        engine.get_function_address("terminated"),
        engine.get_function_address("product") if watch.monitor is not None else 0,
        engine.get_function_address("reduced") if network.symmetries else 0,
        engine.get_function_address("orbit") if network.symmetries else 0,
        engine.get_function_address("timing") if network.timed else 0,
        engine.get_function_address("tests") if network.timed else 0,
        engine.get_function_address("places") if network.timed else 0,
        engine.get_function_address("urgent") if network.timed else 0,
        engine,
    )


def cache_directory() -> Path:
    """Returns the folder of compiled kernels: $VERISTREAM_CACHE, or else in the user's cache directory."""
    own = os.environ.get("VERISTREAM_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "veristream" / "kernels"


LARGE = 1_000_000
"""Longer code is optimised less: it compiles in two thirds of the time and runs as fast."""


@cache
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _machine() -> Any:
    """Returns a target machine for this processor."""
    _initialize()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


@cache
def _code_version() -> bytes:
    """Returns a digest of everything besides the network that determines the compiled code."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    digest.update(binding.get_host_cpu_name().encode())
    digest.update(binding.get_host_cpu_features().flatten().encode())
    for package in ("veristream.ir", "veristream.ir.oracle", "veristream.kernel"):
        modules = [one for one in files(package).iterdir() if one.name.endswith(".py")]
        for module in sorted(modules, key=lambda one: one.name):
            digest.update(module.read_bytes())
    return digest.digest()


def digest_of(network: Network, watch: Watch) -> str:
    """Returns the cache key of the kernel for a network and what is watched."""
    digest = hashlib.sha256(_code_version())
    digest.update(repr(replace(network, properties=())).encode())
    digest.update(repr(watch).encode())
    return digest.hexdigest()[:40]


def _compile(text: str) -> bytes:
    machine = _machine()
    module = binding.parse_assembly(text)
    module.verify()
    level = 2 if len(text) < LARGE else 1
    options = binding.create_pipeline_tuning_options(speed_level=level)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _engine() -> Any:
    """Creates an empty execution engine.

    It uses llvmlite's own memory manager, which places code and constants close together. In a process with
    large reservations, LLVM's may place them too far apart, and then aborts.
    """
    _initialize()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(), use_lmm=True)


def _add(engine: Any, code: bytes) -> None:
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()


def _load_object(path: Path) -> Any | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    stamp, code = content[:32], content[32:]
    if hashlib.sha256(code).digest() != stamp:
        return None
    engine = _engine()
    _add(engine, code)
    return engine


def _write(path: Path, code: bytes) -> None:
    """Writes the entry atomically; ignores a cache that cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(name, path)
    except OSError:
        return
