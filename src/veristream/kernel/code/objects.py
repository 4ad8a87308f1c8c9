"""Object code of kernels: compiled once, cached on disk, and loaded into this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as binding

from veristream.cache import read_entry, write_entry

LARGE = 1_000_000
"""Longer code is optimised less: it compiles in two thirds of the time and runs as fast."""


class Object:
    """Object code in memory; its addresses are valid as long as it is referenced."""

    def __init__(self, code: bytes) -> None:
        """Loads the code with llvmlite's own memory manager, which keeps code and constants close together.

        In a process with large reservations, LLVM's may place them too far apart, and then aborts."""
        _initialize()
        module = binding.parse_assembly("")
        self._engine = binding.create_mcjit_compiler(module, _machine(), use_lmm=True)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, function: str) -> int:
        """The address of a function."""
        return int(self._engine.get_function_address(function))

    def write(self, table: str, words: Sequence[int]) -> None:
        """Fills a table of words that the code reads."""
        address = self._engine.get_global_value_address(table)
        (ctypes.c_uint64 * len(words)).from_address(address)[:] = list(words)


def load(path: Path, emit: Callable[[], str]) -> Object:
    """Returns the cached object; compiles what `emit` returns if that is missing or damaged."""
    code = read_entry(path)
    if code is None:
        code = compile_text(emit())
        write_entry(path, code)
    return Object(code)


def compile_text(text: str) -> bytes:
    """Returns the object code of an LLVM module."""
    machine = _machine()
    module = binding.parse_assembly(text)
    module.verify()
    level = 2 if len(text) < LARGE else 1
    options = binding.create_pipeline_tuning_options(speed_level=level)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


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
