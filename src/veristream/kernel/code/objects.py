"""Object code of kernels: compiled once, cached on disk, and loaded into this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as binding

from veristream.cache import read_entry, write_entry

LARGE, HUGE = 600_000, 2_000_000
"""Longer texts are optimised less, so that they compile in two thirds and in a fifth of the time. Large
relations run as fast; huge ones generate steps at two thirds of the speed, which is little of a search."""


SLACK = '@"slack" = global [8 x i64] zeroinitializer\n'
"""Writable data in every module. LLVM calls `memset` where it clears much, through a word that the loader
puts beside writable data; but it reserves no memory for that word, and aborts if there is none."""


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
    machine = _machine(0 if len(text) > HUGE else 2)
    module = binding.parse_assembly(SLACK + text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=1 if len(text) > LARGE else 2)
    builder = binding.create_pass_builder(machine, options)
    if len(text) > HUGE:
        _simplify(module, builder)
    else:
        builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _simplify(module: Any, builder: Any) -> None:
    """Does what pays most: puts locals into registers and combines instructions."""
    passes = binding.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


@cache
def _initialize() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def _machine(level: int = 2) -> Any:
    """Returns a target machine for this processor; level 0 generates code fast."""
    _initialize()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
    )
