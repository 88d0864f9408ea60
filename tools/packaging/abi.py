#!/usr/bin/env python3
"""Compares the C interface with that of the last release, so that programs built with that one go on working.

Usage: abi.py              fails if a program of the last release could break, and says by what
       abi.py --release    makes the interface as it is now the one that is compared with
       abi.py --headers FOLDER --dump FILE [--release]

New functions, new constants, and new members at the end of a struct break nothing: structs say their size. The interface is
what the headers declare: they are made a shared object of empty functions, and libabigail (abidw, abidiff) does the rest.
That the real library exports these functions is for testing/installed.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).absolute().parent
HEADERS = HERE.parent / "library/include/skiff"
DUMP = HERE / "skiff_0.abi"
DECLARES = re.compile(r"^SKIFF_API\b([^;{]*);", re.MULTILINE)
TYPE = re.compile(r"^}\s*(skiff_\w+);|^typedef [^;{]*?\(\*(skiff_\w+)\)", re.MULTILINE)
CONSTANT = re.compile(r"^#define (SKIFF_\w+)[ \t\\]+(?!\")\S", re.MULTILINE)
ENUMERATOR = re.compile(r"\b(SKIFF_\w+) = ")
# Of no meaning for a program that is compiled already.
NO_CONSTANTS = re.compile(r"SKIFF_API|SKIFF_VERSION.*|\w+_H_")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

# A struct may grow at its end.
SUPPRESSIONS = """
[suppress_type]
  type_kind = struct
  name_regexp = ^skiff_
  has_data_member_inserted_at = end
"""


class AbiError(Exception):
    """For people."""


def run(arguments, **options):
    try:
        return subprocess.run([str(argument) for argument in arguments], check=False, capture_output=True, text=True, **options)
    except FileNotFoundError as error:
        raise AbiError(f"{arguments[0]} is not installed: run tools/install-deps") from error


def source_of(headers):
    """C that defines every function of the headers, and through which every type and constant can be reached."""
    text = "".join(COMMENT.sub("", path.read_text(encoding="utf-8")) for path in sorted(headers.glob("*.h")))
    types = [found[0] or found[1] for found in TYPE.findall(text)]
    constants = [name for name in CONSTANT.findall(text) + ENUMERATOR.findall(text) if not NO_CONSTANTS.fullmatch(name)]
    functions = DECLARES.findall(text)
    if not (functions and types and constants):
        raise AbiError(f"{headers} has no functions, types or constants: are these the headers?")
    # Each constant is an enumeration and a function of its own: abidiff compares which values an enumeration has, not whose
    # they are.
    lines = [f"#include <{headers.name}/skiff.h>"]
    lines += [f"SKIFF_API void skiff_constant_{name}(enum constant_{name} {{ value_of_{name} = (int)({name}) }} constant)"
              " { __builtin_trap(); }" for name in constants]
    lines += [f"SKIFF_API void skiff_type_{name}({name}* type) {{ __builtin_trap(); }}" for name in types]
    lines += [f"SKIFF_API{function} {{ __builtin_trap(); }}" for function in functions]
    return "\n".join(lines) + "\n"


def dump_of(headers):
    with tempfile.TemporaryDirectory() as work:
        source, library = pathlib.Path(work, "interface.c"), pathlib.Path(work, "libskiff.so.0")
        source.write_text(source_of(headers), encoding="utf-8")
        compiled = run(["cc", "-std=c11", "-D_GNU_SOURCE", "-g", "-O0", "-w", "-shared", "-fPIC", f"-I{headers.parent}",
                        f"-ffile-prefix-map={headers.parent}=", f"-ffile-prefix-map={work}=", "-Wl,-soname,libskiff.so.0",
                        "-o", library, source])
        if compiled.returncode != 0:
            raise AbiError(f"the headers do not compile:\n{compiled.stderr}")
        dumped = run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", library])
        if dumped.returncode != 0:
            raise AbiError(f"abidw failed:\n{dumped.stderr}")
        return dumped.stdout


def compare(released, now):
    """What may break programs, or ""."""
    with tempfile.TemporaryDirectory() as work:
        new, suppressions = pathlib.Path(work, "now.abi"), pathlib.Path(work, "suppressions")
        new.write_text(now, encoding="utf-8")
        suppressions.write_text(SUPPRESSIONS, encoding="utf-8")
        result = run(["abidiff", "--no-added-syms", "--suppressions", suppressions, released, new])
        if result.returncode & 3:
            raise AbiError(f"abidiff failed:\n{result.stderr}{result.stdout}")
        return result.stdout if result.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("--headers", type=pathlib.Path, default=HEADERS, help=argparse.SUPPRESS)
    parser.add_argument("--dump", type=pathlib.Path, default=DUMP, help=argparse.SUPPRESS)
    parser.add_argument("--release", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        now = dump_of(options.headers.absolute())
        if options.release:
            options.dump.write_text(now, encoding="utf-8")
        elif not options.dump.is_file():
            raise AbiError(f"{options.dump} is not there: abi.py --release makes it")
        elif changes := compare(options.dump, now):
            raise AbiError(f"the interface is not that of the last release any more:\n{changes}"
                           "a program of that release could break; if it may: abi.py --release")
    except AbiError as error:
        print(f"abi.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
