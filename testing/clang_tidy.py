#!/usr/bin/env python3
"""Runs clang-tidy over C++ sources in parallel, and remembers which ones were clean.

clang-tidy takes seconds a file, most of them for the headers of the system. So it gets files in batches, as one file
that includes them all. A batch that is not clean is halved: what is reported is of a file that was checked by itself.

A file is not checked again as long as the file itself, the headers of this repository that it includes, the
configuration and clang-tidy's version stay the same. What a header includes counts only where no source includes it
itself: so each header is checked with the sources next to it when it changes, and not with half of the tree. With
--indirect, everything counts that is included also indirectly.

Which ones were clean is remembered in two places: in a cache of this machine; and in a file of the repository, so that
other machines need not check everything again. --record brings that file up to date. --indirect does not look at it.

Usage: clang_tidy.py --cache DIRECTORY --generated DIRECTORY [--known FILE [--record]] [--indirect] FILE.cc...
Prints what clang-tidy finds, and exits with 1 if it finds anything.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CLANG_TIDY = "clang-tidy-14"
CONFIG = pathlib.Path(".clang-tidy")
# More files in a batch would share little more, and cost more when it has a finding.
BATCH = 16
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

# What a file defines outside of functions and classes, where lines are not indented: names before a parenthesis, an
# initializer or a body, aliases, and tests.
UNINDENTED = re.compile(rb"^(?!namespace\b|using namespace\b|TEST|[A-Z0-9_]+\()[A-Za-z].*$", re.MULTILINE)
DEFINED = re.compile(rb"(?<!::)(?<!public )\b([A-Za-z]\w*)(?=\(| = | \{| final\b| : |;|\[)")
NO_NAMES = {b"const", b"final", b"noexcept", b"override"}
TEST = re.compile(rb"^(?:TYPED_)?TEST(?:_[FP])?\((\w+), (\w+)\)", re.MULTILINE)


def compiler_flags(generated):
    return [
        "-std=c++20", "-Wall", "-Wextra", "-D_GLIBCXX_ASSERTIONS",
        "-iquote", ".", "-I", "tools/library/include", "-isystem", generated,
    ]  # yapf: disable


class Sources:
    """Contents and includes of the repository's files, each read once."""

    def __init__(self):
        self._contents = {}
        self._includes = {}

    def contents(self, path):
        if path not in self._contents:
            self._contents[path] = path.read_bytes()
        return self._contents[path]

    def includes(self, path):
        """The files of this repository that `path` names; generated headers stand for their .proto file."""
        if path not in self._includes:
            found = []
            for name in INCLUDE.findall(self.contents(path)):
                included = pathlib.Path(os.fsdecode(name))
                if included.name.endswith(".pb.h"):
                    included = included.with_name(included.name[:-len(".pb.h")] + ".proto")
                if included.is_file():
                    found.append(included)
            self._includes[path] = found
        return self._includes[path]

    def direct(self, paths):
        """What the files themselves include."""
        return {included for path in paths for included in self.includes(path)}

    def closure(self, path):
        """The file, and all that it includes."""
        reached = {path}
        pending = [path]
        while pending:
            for included in self.includes(pending.pop()):
                if included not in reached:
                    reached.add(included)
                    pending.append(included)
        return reached


def fingerprint(sources, path, others, common):
    """Of the file, what it includes, and what it includes indirectly and is none of `others`."""
    digest = hashlib.sha256(common)
    for member in sorted(sources.closure(path) - (others - sources.direct([path]) - {path})):
        contents = sources.contents(member)
        digest.update(f"{member} {len(contents)}\n".encode())
        digest.update(contents)
    return digest.hexdigest()


# Of a fingerprint, in the file of those that are known to be clean.
SHORT = 16


def read_known(path):
    """The fingerprints of files that are known to be clean, shortened."""
    return set(path.read_text(encoding="utf-8").split()) if path and path.exists() else set()


def record(path, fingerprints):
    path.write_text("".join(f"{one}\n" for one in sorted(one[:SHORT] for one in fingerprints)), encoding="utf-8")


def defined_names(contents):
    names = {b"_".join(match) for match in TEST.findall(contents)}
    for line in UNINDENTED.findall(contents):
        names.update(DEFINED.findall(line))
    return names - NO_NAMES


def kind(path):
    """Files of one kind include about the same headers, and have no namespace that hides one of another's."""
    suffix = next((suffix for suffix in ("_test.cc", "_bench.cc") if path.name.endswith(suffix)), "")
    return suffix, path.parts[0]


def batches(sources, paths, size):
    """The files in lists of at most that many of one kind, none of which defines a name that another one defines."""
    made = []
    for path in sorted(paths, key=lambda path: (kind(path), path)):
        names = defined_names(sources.contents(path))
        for members, taken in made:
            if len(members) < size and kind(members[0]) == kind(path) and not names & taken:
                members.append(path)
                taken |= names
                break
        else:
            made.append(([path], names))
    return [members for members, _ in made]


def check_batch(paths, flags):
    """What clang-tidy says about each file."""
    if len(paths) == 1:
        return {paths[0]: check(paths[0], flags)}
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as together:
        together.writelines(f'#include "{path}"\n' for path in paths)
        together.flush()
        if not check(together.name, flags):
            return {path: "" for path in paths}
    middle = len(paths) // 2
    return {**check_batch(paths[:middle], flags), **check_batch(paths[middle:], flags)}


def check(path, flags):
    """What clang-tidy says about `path`: the empty string if it is clean."""
    command = [CLANG_TIDY, "--quiet", f"--config-file={CONFIG}", str(path), "--", *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return ""
    # Without findings on stdout, what went wrong is on stderr.
    return done.stdout.strip() or done.stderr.strip() or f"{path}: {CLANG_TIDY} exited with {done.returncode}"


def version_of(said):
    """What --version says, without the processor of this machine."""
    return b"".join(line for line in said.splitlines(True) if b"Host CPU" not in line)


def main():
    parser = argparse.ArgumentParser(description="Runs clang-tidy, and remembers which files were clean.")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="where to remember clean files")
    parser.add_argument("--generated", required=True, help="where Bazel puts generated headers")
    parser.add_argument("--indirect", action="store_true", help="what is included indirectly counts, too")
    parser.add_argument("--known", type=pathlib.Path, help="fingerprints of clean files, in the repository")
    parser.add_argument("--record", action="store_true", help="bring --known up to date")
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()

    version = version_of(subprocess.run([CLANG_TIDY, "--version"], stdout=subprocess.PIPE, check=True).stdout)
    # Not the directory of the generated headers: it differs between checkouts, and what is in it follows from the
    # .proto files.
    common = version + CONFIG.read_bytes() + " ".join(compiler_flags("")).encode()
    sources = Sources()
    others = set() if arguments.indirect else sources.direct(arguments.files)
    prints = {path: fingerprint(sources, path, others, common) for path in arguments.files}
    stamps = {path: arguments.cache / mine for path, mine in prints.items()}
    known = set() if arguments.indirect else read_known(arguments.known)
    pending = [path for path in arguments.files if prints[path][:SHORT] not in known and not stamps[path].exists()]
    print(f"{len(pending)} of {len(stamps)} files to check", flush=True)

    arguments.cache.mkdir(parents=True, exist_ok=True)
    dirty = set()
    flags = compiler_flags(arguments.generated)
    processors = os.cpu_count()
    size = max(1, min(BATCH, len(pending) // processors))
    with concurrent.futures.ThreadPoolExecutor(processors) as executor:
        futures = [executor.submit(check_batch, batch, flags) for batch in batches(sources, pending, size)]
        for future in concurrent.futures.as_completed(futures):
            for path, findings in future.result().items():
                if findings:
                    dirty.add(path)
                    print(findings, flush=True)
                else:
                    stamps[path].touch()
    if arguments.record:
        record(arguments.known, [mine for path, mine in prints.items() if path not in dirty])
    if dirty:
        print(f"clang-tidy has findings in {len(dirty)} files")
    return 1 if dirty else 0


if __name__ == "__main__":
    sys.exit(main())
