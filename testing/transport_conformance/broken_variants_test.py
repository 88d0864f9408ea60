#!/usr/bin/env python3
"""Runs the conformance suite over transports that are broken on purpose.

Usage: broken_variants_test.py PROGRAM [--whole]

Every defect of the simulated transport has to be caught by the tests named here; without a defect, every test passes.
With a defect, the other tests run only with --whole, which tells what else notices, and that nothing hangs.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
WHOLE = "--whole" in sys.argv[2:]

# The tests that have to notice, by defect. Others may notice, too.
CAUGHT_BY = {
    "lost_readable": ["StreamTest.SmallAnswersAndQuestions", "StreamTest.BytesKeepTheirOrder"],
    "lost_writable": ["StreamTest.APeerThatDoesNotReadStopsTheWriter"],
    "corrupt_byte": ["StreamTest.BytesKeepTheirOrder"],
    "swapped_segments": ["StreamTest.BytesKeepTheirOrder"],
    "reset_looks_clean": ["StreamTest.AbortIsNoOrderlyEnd"],
    "nested_callback": ["StreamTest.BytesKeepTheirOrder"],
    "double_completion": ["CompletionTest.ExactlyOneForEveryPost"],
    "lost_completion": ["CompletionTest.ExactlyOneForEveryPost"],
    "reordered_completions": ["CompletionTest.ExactlyOneForEveryPost"],
    "early_send_completion": ["MessageTest.SourceIsUsedUntilTheCompletionAndNotAfter"],
    "early_write_completion": ["OneSidedTest.MemoryIsFreeOnceCompleted"],
    "early_read_completion": ["OneSidedTest.SizesAroundEveryBoundary"],
    "wrong_byte_count": ["MessageTest.SizesAroundEveryBoundary"],
    "unchecked_remote_access": [
        "OneSidedTest.BeyondTheEndIsRefused",
        "OneSidedTest.WrongKeyIsRefused",
        "OneSidedTest.RevokedKeyIsRefused",
        "OneSidedTest.WriteNeedsPermission",
        "OneSidedTest.ReadNeedsPermission",
    ],
    "ignored_invalidate": ["InvalidateTest.SendInvalidatesAWindow", "InvalidateTest.SendInvalidatesARegion"],
    "lasting_window": ["InvalidateTest.DestroyingAWindowClosesIt"],
    "late_write": [
        "RegistrationTest.DeregisteredWhileThePeerWrites",
        "RegistrationTest.DeregisteredBehindItsEndpoint",
    ],
    "no_flush": ["CompletionTest.FlushedAtDisconnect", "TeardownTest.DisconnectWithEverythingInFlight"],
    "dangling_endpoint": ["CompletionTest.EndpointDestroyedEarlyStillCompletes"],
    "unbounded_read_depth": ["OneSidedTest.ReadDepthIsRespected"],
    "missed_arm": ["CompletionTest.ArmedDescriptorWakes", "CompletionTest.NoWakeUpIsLostInAThousandSleeps"],
    "unchecked_bounds": [
        "OneSidedTest.BeyondTheEndIsRefused",
        "OneSidedTest.BeforeTheStartIsRefused",
        "InvalidateTest.BehindTheWindowIsRefused",
    ],
    "stale_buffer": ["MessageTest.KeepTheirOrder", "FlowControlTest.NoCreditIsLostInManyMessages"],
    "credit_leak": ["FlowControlTest.SendQueueFillsAndEmpties", "FlowControlTest.NoCreditIsLostInManyMessages"],
    "overflowing_queue": ["CompletionTest.QueueThatIsTooSmallIsRefused"],
    "nested_disconnect": ["RdmaConnectionTest.OnDisconnectRunsOnceAtBothEnds"],
    "wrong_scheme": ["TransportTest.EverythingHasItsScheme"],
    "wrong_listen_scheme": ["TransportTest.EverythingHasItsScheme"],
    "ignored_timeout": ["ConnectionTest.UnansweredUntilTheTimeout"],
    "unchecked_address": ["TransportTest.RefusesAnUnknownOption"],
    "no_devices": ["TransportTest.ReportsAUsableDevice"],
}


def run(defect, *flags):
    """The suite's exit status, the names of the tests that failed, and the number of all."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("GTEST_", "XML_OUTPUT"))}
        done = subprocess.run(
            [PROGRAM, "--transport", defect, "--json", report, *flags],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        if not os.path.exists(report):
            raise AssertionError(f"no report, exit status {done.returncode}:\n{done.stdout.decode()[-3000:]}")
        with open(report, encoding="utf-8") as file:
            tests = json.load(file)["tests"]
    failed = {f"{test['suite']}.{test['name']}" for test in tests if test["outcome"] == "failed"}
    return done.returncode, failed, len(tests)


class BrokenVariantsTest(unittest.TestCase):
    def test_none_passes(self):
        status, failed, count = run("none")
        self.assertEqual(failed, set())
        self.assertEqual(status, 0)
        self.assertGreater(count, 200)


def add_case(defect, expected):
    def test(self):
        flags = () if WHOLE else (f"--gtest_filter={':'.join(f'*{test}*' for test in expected)}",)
        status, failed, _ = run(defect, *flags)
        print(f"{defect}: caught by {len(failed)} tests: {', '.join(sorted(failed))}", flush=True)
        self.assertEqual(status, 1)
        self.assertEqual(set(expected) - failed, set(), "these tests did not notice")

    setattr(BrokenVariantsTest, f"test_{defect}", test)


for name, tests_that_notice in CAUGHT_BY.items():
    add_case(name, tests_that_notice)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
