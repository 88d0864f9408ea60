#!/usr/bin/env python3
"""Tells what a run of testing/run cost: its slowest tests, and its most expensive compilations.

Usage: run_costs.py [--shown N] DIRECTORY
The directory has, for each stage, NAME.events as Bazel's --build_event_json_file writes it and NAME.profile as
--profile does. A stage that lacks one of them is left out.
"""

import argparse
import gzip
import json
import pathlib

import count_tests

# An action as Bazel's profile calls it, and what its name begins with if it compiles.
ACTION = "action processing"
COMPILING = "Compiling "


def tests(directory):
    """(seconds, stage, label) of each test."""
    for path in directory.glob("*.events"):
        for label, target in count_tests.read_targets(path).items():
            if target.seconds > 0:
                yield target.seconds, path.stem, label


def compilations(directory):
    """(seconds, stage, source) of each compilation."""
    for path in directory.glob("*.profile"):
        try:
            # Bazel compresses what it writes to some names only.
            data = path.read_bytes()
            profile = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
        except (OSError, EOFError, ValueError):
            # Bazel was stopped before it had written all of it.
            continue
        for event in profile["traceEvents"]:
            name = event.get("name", "")
            if event.get("cat") == ACTION and name.startswith(COMPILING):
                yield event["dur"] / 1e6, path.stem, name[len(COMPILING):]


def show(title, rows, shown):
    print(f"\n{title}:")
    for seconds, stage, name in sorted(rows, reverse=True)[:shown]:
        print(f"  {seconds:7.1f} s  {stage:<8} {name}")


def main():
    parser = argparse.ArgumentParser(description="Tells what a run of testing/run cost.")
    parser.add_argument("--shown", type=int, default=10, help="how many of each; default: 10")
    parser.add_argument("directory", type=pathlib.Path)
    arguments = parser.parse_args()
    show("Slowest tests", tests(arguments.directory), arguments.shown)
    show("Most expensive compilations", compilations(arguments.directory), arguments.shown)


if __name__ == "__main__":
    main()
