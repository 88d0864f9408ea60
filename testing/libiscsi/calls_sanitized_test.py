#!/usr/bin/env python3
"""The calls of calls.c and of trouble.c in one program with Skiff, for the sanitizers.

Usage: calls_sanitized_test.py SKIFFD CALLS TROUBLE
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import face  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position


def main():
    skiffd, calls, trouble = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory, peers.Skiffd(skiffd, face.LUNS, directory) as target:
        once = face.Once(target.port)
        for program, what in ((calls, "both"), (calls, face.SKIFF), (trouble, once.portal)):
            status, output = peers.run_limited([program, target.url(), what], face.SECONDS)
            if status != 0 or not output.endswith(": done\n"):
                print(f"{program} {what}: status {status}\n{output}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
