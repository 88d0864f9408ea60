#!/usr/bin/env python3
"""Skiff's target under libiscsi's tools and its conformance suite, iscsi-test-cu.

Usage: libiscsi_test.py SKIFFD        as a test: every result has to be the one that libiscsi_expected.txt says
       libiscsi_test.py --tgt         the same against Debian's tgt: only prints the results
       --only PATTERN                 the tests whose SUITE.TEST matches (a regular expression), with full output
       --jobs N                       targets, and tests, at once (2)
"""

import argparse
import contextlib
import pathlib
import queue
import re
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import cases  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

EXPECTED = pathlib.Path(__file__).parent / "libiscsi_expected.txt"
TEST_SECONDS = 20
LUNS = ("ram:1GiB", "ram:1GiB,read_only", "ram:1GiB,block_size=4096", f"ram:{255 * 512}")
# The suites and tests that need another logical unit than the first. ReadOnly is about write-protected ones. GetLBAStatus
# counts in logical blocks where it means physical ones, and so needs a logical unit where they are the same. Two of
# CompareAndWrite go up to 256 blocks, or all there are, and 256 does not fit into the 8 bits of the CDB.
LUN_OF = {"ReadOnly": 1, "GetLBAStatus": 2, "CompareAndWrite.Simple": 3, "CompareAndWrite.Miscompare": 3}


def read_expected(path):
    """SUITE.TEST -> ("skip" or "fail=N", reason), for the tests that are not expected to pass."""
    expected = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(skip|fail=\d+) +(\S+) +(\S.*)", line)
        if match is None or match[2] in expected:
            raise peers.PeerError(
                f"{path.name}:{number}: not 'skip|fail=ASSERTIONS SUITE.TEST REASON', or a second line for it")
        expected[match[2]] = (match[1], match[3])
    return expected


def list_tests():
    status, output = peers.run_limited([peers.find_program("iscsi-test-cu"), "--list"], TEST_SECONDS)
    names = re.findall(r"^ALL\.(\w+\.\w+)$", output, re.MULTILINE)
    if status != 0 or not names:
        raise peers.PeerError(f"iscsi-test-cu --list: status {status}, {len(names)} tests")
    return names


def run_test(name, target):
    """(verdict, why, output) of one test, in a process of its own: "pass", "skip", "fail=N" of N failed assertions."""
    # Some tests want two paths to the same logical unit.
    suite = name.split(".", maxsplit=1)[0]
    lun = LUN_OF.get(name, LUN_OF.get(suite)) if isinstance(target, peers.Skiffd) else None
    urls = [target.url(lun)] * (2 if suite == "MultipathIO" else 1)
    command = [peers.find_program("iscsi-test-cu"), "--dataloss", "--allow-sanitize", "--test", f"ALL.{name}", *urls]
    status, output = peers.run_limited(command, TEST_SECONDS)
    if status is None:
        return "fail=0", f"no end after {TEST_SECONDS} s", output
    asserts = re.search(r"^\s*asserts\s+\d+\s+\d+\s+\d+\s+(\d+)", output, re.MULTILINE)
    if status != 0 or asserts is None or int(asserts[1]) > 0:
        detail = re.search(r"\[FAILED\] *(.*)", output)
        return f"fail={asserts[1] if asserts else 0}", detail[1] if detail else f"exit status {status}", output
    # What it skips while it sets up and clears away is not the test's.
    body = re.search(r"Test: \S+ \.\.\.(.*?)passed", output, re.DOTALL)
    skip = re.search(r"\[SKIPPED\] *(.*)", body[1] if body else output)
    if skip:
        return "skip", skip[1].strip(), output
    return "pass", "", output


def judge(collected, name, got, want, seconds):
    verdict, why, output = got
    wanted, reason = want or ("pass", "")
    if verdict == wanted == "pass":
        collected.passed(name, seconds)
    elif verdict == wanted == "skip":
        collected.skipped(name, reason, seconds)
    elif verdict == wanted:
        collected.failed_as_expected(name, f"{wanted}: {reason}", seconds)
    else:
        collected.failed(name, f"expected to {wanted}, but: {verdict} {why}\n{output.strip()}", seconds)


class Suite:
    """Runs the tests on several targets at once."""

    def __init__(self, make_target, expected, collected, verbose):
        self._make_target = make_target
        self._expected = expected  # None: only print.
        self._collected = collected
        self._verbose = verbose
        self._names = queue.SimpleQueue()
        self._errors = []

    def run(self, names, jobs):
        for name in names:
            self._names.put(name)
        workers = [threading.Thread(target=self._work, args=(number,)) for number in range(jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, number):
        try:
            with contextlib.ExitStack() as stack:
                directory = stack.enter_context(tempfile.TemporaryDirectory())
                target = stack.enter_context(self._make_target(directory, number))
                while True:
                    try:
                        name = self._names.get_nowait()
                    except queue.Empty:
                        return
                    self._run_one(name, target)
        except Exception as error:  # pylint: disable=broad-except
            self._errors.append(error)

    def _run_one(self, name, target):
        began = time.monotonic()
        got = run_test(name, target)
        seconds = time.monotonic() - began
        if self._verbose:
            print(got[2])
        if self._expected is not None:
            judge(self._collected, name, got, self._expected.get(name), seconds)
        else:
            print(f"{got[0]} {name} {got[1]}", flush=True)
        if target.process.poll() is not None:
            self._collected.failed(f"{name} (target)", f"the target ended, status {target.process.returncode}")
        # What the test left behind (data, a reservation, a mode page) is not the next test's business.
        target.stop()
        target.start()


def check_tool(command, *patterns):
    status, output = peers.run_limited([peers.find_program(command[0]), *command[1:]], TEST_SECONDS)
    if status != 0:
        raise peers.PeerError(f"{' '.join(command)}: status {status}\n{output}")
    for pattern in patterns:
        if re.search(pattern, output) is None:
            raise peers.PeerError(f"{' '.join(command)}: no '{pattern}' in\n{output}")


def run_tools(target, collected):
    """libiscsi's small tools, each checked for what it has to find."""
    url = target.url()
    checks = [
        ("iscsi-ls", ["-s", f"iscsi://{target.portal}"], [re.escape(target.name), r"Lun:\d+ +Type:DIRECT_ACCESS"]),
        ("iscsi-inq", [url], [r"Peripheral Device Type:DIRECT_ACCESS", r"(?i)vendor:\s*\S+", r"(?i)product:\s*\S+"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0x00), url], [r"(?i)page:0x83", r"(?i)page:0xb0"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0x80), url], [r"(?i)serial number.*\S"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0x83), url], [r"(?i)designator type:\(\d\)"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0xb0), url], [r"(?i)maximum transfer length:\d+"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0xb1), url], [r"(?i)medium rotation rate:"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0xb2), url], [r"(?i)provisioning type:\d"]),
        ("iscsi-readcapacity16", [url], [r"(?i)block length in bytes:512\b", r"(?i)total size:1073741824"]),
        ("iscsi-swp", [url], [r"SWP:0"]),
        ("iscsi-swp", ["--swp", "on", url], []),
        ("iscsi-swp", [url], [r"SWP:1"]),
        ("iscsi-swp", ["--swp", "off", url], []),
    ]
    for number, (tool, arguments, patterns) in enumerate(checks):
        options = " ".join(argument for argument in arguments if "://" not in argument)
        collected.run(f"{tool} {options} #{number}".replace("  ", " "), check_tool, [tool, *arguments], *patterns)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skiffd", nargs="?")
    parser.add_argument("--tgt", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if bool(options.skiffd) == options.tgt:
        parser.error("either the path of skiffd, or --tgt")

    def make_target(directory, number):
        if not options.tgt:
            return peers.Skiffd(options.skiffd, LUNS, directory)
        image = pathlib.Path(directory) / f"lun{number}"
        with open(image, "wb") as file:
            file.truncate(1 << 30)
        return peers.Tgtd(image, directory)

    expected = None if options.tgt else read_expected(EXPECTED)
    names = list_tests()
    if expected:
        unknown = sorted(set(expected) - set(names))
        if unknown:
            raise peers.PeerError(f"{EXPECTED.name} names tests that iscsi-test-cu does not have: {unknown}")
    collected = cases.Cases("libiscsi")
    if options.only:
        names = [name for name in names if re.search(options.only, name)]
    else:
        with tempfile.TemporaryDirectory() as directory, make_target(directory, 0) as target:
            run_tools(target, collected)
    Suite(make_target, expected, collected, bool(options.only)).run(names, options.jobs)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
