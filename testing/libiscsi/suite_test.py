#!/usr/bin/env python3
"""iscsi-test-cu over Skiff's libiscsi.so.7: nothing crashes, and what differs from libiscsi is in differences.txt.

Usage: suite_test.py SKIFFD FACE LIBSKIFF
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import cases  # pylint: disable=wrong-import-position
import face  # pylint: disable=wrong-import-position
import libiscsi_suite  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

DIFFERENCES = HERE / "differences.txt"
JOBS = 2


def main():
    skiffd, library, libskiff = sys.argv[1:]
    names = libiscsi_suite.list_tests()
    expected = libiscsi_suite.read_expected(libiscsi_suite.EXPECTED, names)
    expected |= libiscsi_suite.read_expected(DIFFERENCES, names)
    collected = cases.Cases("libiscsi_face")
    with tempfile.TemporaryDirectory() as directory:
        environment = face.Libraries(directory, library, libskiff).environment(face.SKIFF)
        suite = libiscsi_suite.Suite(lambda place, _: peers.Skiffd(skiffd, libiscsi_suite.LUNS, place), expected, collected, False,
                                     env=environment)
        omitted = [name for name in names if expected.get(name, ("",))[0] == "omit"]
        for name in omitted:
            print(f"OMITTED {name}: {expected[name][1]}")
        suite.run([[name] for name in names if name not in omitted], JOBS)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
