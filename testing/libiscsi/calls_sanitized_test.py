#!/usr/bin/env python3
"""The calls of calls.c in one program with Skiff, for the sanitizers.

Usage: calls_sanitized_test.py SKIFFD CALLS
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
    skiffd, calls = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory, peers.Skiffd(skiffd, face.LUNS, directory) as target:
        for what in ("both", face.SKIFF):
            status, output = peers.run_limited([calls, target.url(), what], face.SECONDS)
            if status != 0 or not output.endswith("calls: done\n"):
                print(f"calls {what}: status {status}\n{output}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
