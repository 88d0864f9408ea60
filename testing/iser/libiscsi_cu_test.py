#!/usr/bin/env python3
"""libiscsi's conformance suite, iscsi-test-cu, over iSER with Skiff's target, in a guest.

Usage: libiscsi_cu_test.py SKIFFD SHIM TRANSPORT [--only PATTERN]    where TRANSPORT is roce or iwarp

Each suite is a process, which logs in twice and more. That libiscsi survives this takes SHIM, libiscsi_shim.so.
Every result has to be the one over TCP (libiscsi_expected.txt), or the one that libiscsi_iser_expected.txt says. Suites
that find nothing to test over TCP are not run.
"""

import argparse
import itertools
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / directory) for directory in ("interop", "linux", "vm"))]
sys.dont_write_bytecode = True
import libiscsi_suite  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from iser_peers import IserSkiffd, libiscsi_environment  # pylint: disable=wrong-import-position

EXPECTED = HERE / "libiscsi_iser_expected.txt"
TEST_SECONDS = 60
# One for each of the guest's processors.
JOBS = 2
# Those of libiscsi_suite.LUNS.
LUNS = ('ram { size: "1GiB" }', 'ram { size: "1GiB" } read_only: true', 'ram { size: "1GiB" } block_size: 4096',
        f'ram {{ size: "{255 * 512}" }}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skiffd", type=os.path.abspath)
    parser.add_argument("shim", type=os.path.abspath)
    parser.add_argument("transport", choices=("roce", "iwarp"))
    parser.add_argument("--only", metavar="PATTERN", default="", help="tests whose SUITE.TEST matches, with output")
    options = parser.parse_args()
    collected = Cases(f"libiscsi_cu_{options.transport}")
    names = libiscsi_suite.list_tests()
    expected = {**libiscsi_suite.read_expected(libiscsi_suite.EXPECTED, names),
                **libiscsi_suite.read_expected(EXPECTED, names)}
    chosen = []
    for _, of_suite in itertools.groupby(names, lambda name: name.split(".")[0]):
        of_suite = list(of_suite)
        nothing_to_test = all(expected.get(name, ("pass",))[0] in ("skip", "omit") for name in of_suite)
        for name in of_suite:
            wanted, reason = expected.get(name, ("pass", ""))
            if nothing_to_test or wanted == "omit":
                collected.skipped(name, reason)
            elif re.search(options.only, name):
                chosen.append(name)
    groups = itertools.groupby(chosen, lambda name: (name.split(".")[0], libiscsi_suite.LUN_OF.get(name)))
    environment = {**os.environ, **libiscsi_environment(options.shim)}

    def make_target(directory, number):
        target = IserSkiffd(options.skiffd, LUNS, directory)
        target.port += number
        return target

    suite = libiscsi_suite.Suite(make_target, expected, collected, bool(options.only), TEST_SECONDS, env=environment)
    suite.run([list(group) for _, group in groups], JOBS)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
