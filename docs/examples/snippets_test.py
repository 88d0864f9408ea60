#!/usr/bin/env python3
"""Holds the C++ that pages show to the programs of docs/examples, which are compiled and run.

Usage: snippets_test.py PAGE.md...

Each block that starts with ```cpp has to be in one of the programs, line by line; only its indentation may differ.
"""

import pathlib
import sys


def blocks(text):
    """Each block of C++, with the number of the line before it."""
    start, lines = None, []
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and line.strip() == "```cpp":
            start, lines = number, []
        elif start is not None and line.strip() == "```":
            yield start, lines
            start = None
        elif start is not None:
            lines.append(line.strip())


def contains(program, lines):
    return any(program[at:at + len(lines)] == lines for at in range(len(program) - len(lines) + 1))


def main():
    programs = [[line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
                for path in pathlib.Path("docs/examples").glob("*.cc")]
    shown = failures = 0
    for page in sys.argv[1:]:
        for start, lines in blocks(pathlib.Path(page).read_text(encoding="utf-8")):
            shown += 1
            if not any(contains(program, lines) for program in programs):
                print(f"{page}:{start}: not in any program of docs/examples")
                failures += 1
    print(f"{shown} blocks, {failures} of them in no program")
    return 0 if shown > 0 and failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
