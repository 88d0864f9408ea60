#!/usr/bin/env python3
"""What testing/vm/run promises: streams, exit status, files, devices, and what it says about a hang or a crash.

Usage: run_test.py
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
from cases import Cases  # pylint: disable=wrong-import-position

RUN = str(HERE / "run")
SECONDS = 120
OUT_OF_TIME, FAILED = 124, 125

# Arguments: a directory that is writable, one that is not.
COMMAND = r"""
set -eu
echo "to errors" >&2
printf '%s\n' "$(pwd)" "${VM_TEST_VARIABLE}" "$#" "$3" "$(ulimit -l)" "$(id -u)"
echo kept >"$1/file"
echo lost >"$2/file"
cat "$2/file"
ls /sys/class/infiniband | tr '\n' ' '
echo
head -c 3000000 /dev/zero | tr '\0' x
# It outlives its parent, with the streams open.
sleep 1000 &
exit 7
"""


def run(*arguments, environment=None):
    return subprocess.run(
        [RUN, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
        env={**os.environ, **(environment or {})},
    )


def expect(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}: {found!r} instead of {expected!r}")


def expect_in(text, *parts):
    for part in parts:
        if part not in text:
            raise AssertionError(f"no {part!r} in: {text}")


def check_command():
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as lost:
        strange = "a 'quoted' \"argument\" with $variables, \\ and\na line"
        done = run(
            "--device", "both", "--writable", kept, "--", "bash", "-c", COMMAND, "command", kept, lost, strange,
            environment={"VM_TEST_VARIABLE": strange},
        )
        expect("exit status", done.returncode, 7)
        expect("errors", done.stderr, "to errors\n")
        head = [os.getcwd(), strange, "3", strange, "unlimited", "0", "lost", "rxe0 siw0 "]
        expect("output", done.stdout[:-3000000], "\n".join(head) + "\n")
        expect("long output", done.stdout[-3000000:], "x" * 3000000)
        expect("the file in the writable directory", (pathlib.Path(kept) / "file").read_text(encoding="utf-8"), "kept\n")
        expect("the files in the other directory", list(pathlib.Path(lost).iterdir()), [])


def check_hang():
    began = time.monotonic()
    done = run("--device", "roce", "--timeout", "25", "--", "sh", "-c", "echo before; exec sleep 12345")
    expect("exit status", done.returncode, OUT_OF_TIME)
    expect("output", done.stdout, "before\n")
    expect_in(done.stderr, "did not end within 25 s", "sleep 12345", "nanosleep", "rxe0/1 state ACTIVE", "kernel log")
    if time.monotonic() - began > 90:
        raise AssertionError(f"it took {time.monotonic() - began:.0f} s")


def check_dead_user_space():
    # Nobody is left to answer: the kernel has to, on its console.
    script = 'for p in $(pgrep -P 1); do [ "$p" = $$ ] || kill -KILL "$p"; done; exec sleep 12345'
    done = run("--device", "none", "--timeout", "25", "--", "sh", "-c", script)
    expect("exit status", done.returncode, OUT_OF_TIME)
    expect_in(done.stderr, "console of host 1", "Show Blocked State", "Show State", "task:sleep")


def check_crash():
    done = run("--device", "none", "--", "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 12345")
    expect("exit status", done.returncode, FAILED)
    expect_in(done.stderr, "host 1 went down by itself", "Kernel panic - not syncing: sysrq triggered crash")


def check_segmentation_fault():
    done = run("--device", "none", "--", "python3", "-c", "import ctypes; ctypes.string_at(0)")
    expect("exit status", done.returncode, 128 + signal.SIGSEGV)
    expect_in(done.stderr, "the kernel of host 1 had something to say", "segfault at 0")


def check_usage():
    done = run("--device", "token-ring", "--", "true")
    expect("exit status", done.returncode, 2)
    expect_in(done.stderr, "token-ring")
    done = run("--writable", "/nonexistent", "--", "true")
    expect("exit status", done.returncode, 2)
    expect_in(done.stderr, "--writable=/nonexistent: no such directory")


def check_peer_status():
    done = run(
        "--device", "none", "--hosts", "2", "--peer-command", 'touch "${SKIFF_VM_SHARED}/ended"; echo words; exit 9', "--",
        "sh", "-c", 'while ! [ -e "${SKIFF_VM_SHARED}/ended" ]; do sleep 0.1; done; sleep 0.5',
    )
    expect("exit status", done.returncode, 9)
    expect("output", done.stdout, "")
    expect_in(done.stderr, "[host 2] words\n", "the command of host 2 ended with exit status 9")


def main():
    cases = Cases("run")
    cases.run("command", check_command)
    cases.run("hang", check_hang)
    cases.run("dead_user_space", check_dead_user_space)
    cases.run("crash", check_crash)
    cases.run("segmentation_fault", check_segmentation_fault)
    cases.run("usage", check_usage)
    cases.run("peer_status", check_peer_status)
    return cases.finish()


if __name__ == "__main__":
    sys.exit(main())
