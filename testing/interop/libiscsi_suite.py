"""libiscsi's conformance suite, iscsi-test-cu, one process for each of its tests."""

import contextlib
import pathlib
import queue
import re
import tempfile
import threading
import time

import peers

EXPECTED = pathlib.Path(__file__).parent / "libiscsi_expected.txt"
TEST_SECONDS = 20
LUNS = ("ram:1GiB", "ram:1GiB,read_only", "ram:1GiB,block_size=4096", f"ram:{255 * 512}")
# The suites and tests that need another logical unit than the first. ReadOnly is about write-protected ones. GetLBAStatus
# counts in logical blocks where it means physical ones, and so needs a logical unit where they are the same. Two of
# CompareAndWrite go up to 256 blocks, or all there are, and 256 does not fit into the 8 bits of the CDB.
LUN_OF = {"ReadOnly": 1, "GetLBAStatus": 2, "CompareAndWrite.Simple": 3, "CompareAndWrite.Miscompare": 3}


def read_expected(path, names):
    """SUITE.TEST -> ("skip", "omit" or "fail=N", reason), for the named tests that are not expected to pass."""
    expected = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(skip|omit|fail=\d+) +(\S+) +(\S.*)", line)
        if match is None or match[2] in expected:
            raise peers.PeerError(
                f"{path.name}:{number}: not 'skip|omit|fail=ASSERTIONS SUITE.TEST REASON', or a second line for it")
        expected[match[2]] = (match[1], match[3])
    unknown = sorted(set(expected) - set(names))
    if unknown:
        raise peers.PeerError(f"{path.name} names tests that iscsi-test-cu does not have: {unknown}")
    return expected


def list_tests():
    status, output = peers.run_limited([peers.find_program("iscsi-test-cu"), "--list"], TEST_SECONDS)
    names = re.findall(r"^ALL\.(\w+\.\w+)$", output, re.MULTILINE)
    if status != 0 or not names:
        raise peers.PeerError(f"iscsi-test-cu --list: status {status}, {len(names)} tests")
    return names


def parse_output(output):
    """SUITE.TEST -> (verdict, why), of the tests that were run, in their order."""
    results = {}
    for suite, tests in re.findall(r"^Suite: (\w+)\n(.*?)(?=^Suite: |^Run Summary|\Z)", output,
                                   re.MULTILINE | re.DOTALL):
        for test, said in re.findall(r"^ *Test: (\S+) \.\.\.(.*?)(?=^ *Test: |\Z)", tests,
                                     re.MULTILINE | re.DOTALL):
            asserts = re.findall(r"^ +\d+\. \S+:\d+ +- ", said, re.MULTILINE)
            # What it skips while it sets up and clears away is not the test's.
            body, passed, _ = said.partition("passed")
            skip = re.search(r"\[SKIPPED\] *(.*)", body)
            if asserts or not passed:
                detail = re.search(r"\[FAILED\] *(.*)", said)
                results[f"{suite}.{test}"] = f"fail={len(asserts)}", detail[1] if detail else ""
            elif skip:
                results[f"{suite}.{test}"] = "skip", skip[1].strip()
            else:
                results[f"{suite}.{test}"] = "pass", ""
    return results


def run_tests(names, target, seconds, whole_suite, **options):
    """SUITE.TEST -> (verdict, why) of tests of a suite in one process, and its output.

    The verdict is "pass", "skip", or "fail=N" of N failed assertions.
    """
    # Some tests want two paths to the same logical unit.
    suite = names[0].split(".", maxsplit=1)[0]
    lun = LUN_OF.get(names[0], LUN_OF.get(suite)) if isinstance(target, peers.Skiffd) else None
    urls = [target.url(lun)] * (2 if suite == "MultipathIO" else 1)
    # It logs in again for each of a list, and runs the last one first.
    tests = f"ALL.{suite}" if whole_suite else ",".join(f"ALL.{name}" for name in reversed(names))
    command = [peers.find_program("iscsi-test-cu"), "--dataloss", "--allow-sanitize", "--test", tests, *urls]
    status, output = peers.run_limited(command, seconds * len(names), **options)
    results = parse_output(output)
    if status != (1 if any(verdict.startswith("fail") for verdict, _ in results.values()) else 0):
        last = next(reversed(results), names[0])
        results[last] = "fail=0", "no end" if status is None else f"exit status {status}"
    return {name: results.get(name, ("fail=0", "not run")) for name in names}, output


def judge(collected, name, got, want, output, seconds):
    verdict, why = got
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

    def __init__(self, make_target, expected, collected, verbose, seconds=TEST_SECONDS, **options):
        self._make_target = make_target
        self._expected = expected  # None: only print.
        self._collected = collected
        self._verbose = verbose
        self._seconds = seconds  # For a test, on average.
        self._options = options  # Of the tests' processes.
        self._all_names = list_tests()
        self._groups = queue.SimpleQueue()
        self._errors = []

    def run(self, groups, jobs):
        """Each group of names, all of a suite, is for one process and a target that was just started."""
        for group in groups:
            self._groups.put(group)
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
                        names = self._groups.get_nowait()
                    except queue.Empty:
                        return
                    self._run_group(names, target)
        except Exception as error:  # pylint: disable=broad-except
            self._errors.append(error)

    def _run_group(self, names, target):
        began = time.monotonic()
        suite = names[0].split(".", maxsplit=1)[0]
        whole_suite = names == [name for name in self._all_names if name.startswith(f"{suite}.")]
        results, output = run_tests(names, target, self._seconds, whole_suite, **self._options)
        seconds = (time.monotonic() - began) / len(names)
        if self._verbose:
            print(output)
        for name, got in results.items():
            if self._expected is not None:
                judge(self._collected, name, got, self._expected.get(name), output, seconds)
            else:
                print(f"{got[0]} {name} {got[1]}", flush=True)
        if target.process.poll() is not None:
            self._collected.failed(f"{names[0]} (target)", f"the target ended, status {target.process.returncode}")
        # What the tests left behind (data, a reservation, a mode page) is not the next ones' business.
        target.stop()
        target.start()
