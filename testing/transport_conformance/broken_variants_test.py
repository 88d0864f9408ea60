#!/usr/bin/env python3
"""Runs the conformance suite over transports that are broken on purpose.

Usage: broken_variants_test.py PROGRAM [--whole]

Every defect of the simulated transport, every fault of the one that forwards to TCP, and every one of the options has to be
caught by the tests named here; without one, every test passes. Of a fault, the failure has to name it.
With a defect, the other tests run only with --whole, which tells what else notices, and that nothing hangs.
"""

import collections
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

# The test that has to notice a fault of the transport that forwards, and what it has to say.
NAMED_BY = {
    "wrong_scheme": ("TransportTest.EverythingHasItsScheme", "of the end that connected"),
    "no_devices": ("TransportTest.ReportsAUsableDevice", "none of 0 devices is usable"),
    "nameless_device": ("TransportTest.ReportsAUsableDevice", "a device without a name"),
    "unexplained_device": ("TransportTest.ReportsAUsableDevice", "is not usable, and nobody says why"),
    "unchecked_address": ("TransportTest.RefusesAnUnknownOption", "by CheckAddress()"),
    "strict_address": ("TransportTest.RefusesAnUnknownOption", "CheckAddress() refuses what Listen() takes"),
    "unchecked_listen": ("TransportTest.RefusesAnUnknownOption", "by Listen()"),
    "unchecked_connect": ("TransportTest.RefusesAnUnknownOption", "by Connect()"),
    "port_zero": ("TransportTest.RefusesWhatCannotBe", "connecting to port 0"),
    "timeout_zero": ("TransportTest.RefusesWhatCannotBe", "connecting with a timeout of 0"),
    "backlog_zero": ("TransportTest.RefusesWhatCannotBe", "listening with a backlog of 0"),
    "terse_listen_error": ("TransportTest.RefusesAPortThatIsTaken", "has to name the address"),
    "terse_connect_error": ("ConnectionTest.NobodyListens", "has to name the address"),
    "taken_port": ("TransportTest.RefusesAPortThatIsTaken", "two listen at fwd://127.0.0.1"),
    "ignored_timeout": ("ConnectionTest.UnansweredUntilTheTimeout", "the timeout of a connect, 300ms, is ignored"),
    "unnamed_timeout": ("ConnectionTest.UnansweredUntilTheTimeout", "the timeout's error: UNKNOWN"),
    "nested_done": ("ConnectionTest.ConnectAndAccept", "done ran from inside a call"),
    "second_done": ("ConnectionTest.ListenerClosedWithConnectionsPending", "`done` ran twice"),
    "lost_done": ("ConnectionTest.NobodyListens", "the attempt has no outcome"),
    "done_after_cancel": ("ConnectionTest.CancelledAttemptIsSilent", "`done` ran after the attempt was destroyed"),
    "wrong_listen_scheme": ("TransportTest.EverythingHasItsScheme", "of Listener::address()"),
    "wrong_listen_schemes": ("TransportTest.EverythingHasItsScheme", "of Listener::addresses()"),
    "unbound_port": ("TransportTest.EverythingHasItsScheme", "the port that was bound"),
    "still_listening": ("ConnectionTest.NobodyListens", "the attempt succeeded"),
    "false_alarm": ("TransportTest.RequestsSayWhoAsks", "on_failure ran while listening goes on"),
    "nameless_peer": ("TransportTest.RequestsSayWhoAsks", "ConnectionRequest::peer_address()"),
    "nameless_host": ("TransportTest.RequestsSayWhoAsks", "ConnectionRequest::local_address()"),
    "chatty_request": ("TransportTest.RequestsSayWhoAsks", "byte streams have none"),
    "rejected_stays_open": ("ConnectionTest.RejectedByThePeer", "who was rejected is still connected"),
    "dropped_stays_open": ("ConnectionTest.RequestDestroyedUnanswered", "destroyed unanswered is still connected"),
    "lost_accept": ("ConnectionTest.ConnectAndAccept", "no connection within"),
    "untold_observer": ("StreamTest.NewObserversAreToldOnce", "a new observer is told"),
    "nested_observer": ("StreamTest.NewObserversAreToldOnce", "told from inside SetObserver()"),
    "told_twice": ("StreamTest.NewObserversAreToldOnce", "told twice after one kWouldBlock"),
    "old_observer": ("StreamTest.OnlyTheNewestObserverIsTold", "the observer that it replaced is told"),
    "one_notice": ("StreamTest.SmallAnswersAndQuestions", "did not wake the reader"),
    "nested_notice": ("StreamTest.BytesKeepTheirOrder", "told from inside a call"),
    "empty_read": ("StreamTest.BytesKeepTheirOrder", "Readv() moved 0 bytes"),
    "overlong_read": ("StreamTest.BytesKeepTheirOrder", "is not the one that was sent"),
    "scribbling_read": ("StreamTest.BytesKeepTheirOrder", "wrote behind the bytes it reports"),
    "borrowed_write": ("StreamTest.BytesKeepTheirOrder", "is not the one that was sent"),
    "refused_long_list": ("StreamTest.ListsMayBeLongerThanTheLimit", "1124 entries is refused"),
    "write_after_end": ("StreamTest.WritingAfterShutdownIsRefused", "accepted behind the end of the stream"),
    "ignored_shutdown": ("StreamTest.TheEndComesAfterTheLastByte", "the end of the stream never came"),
    "shutdown_ends_both": ("StreamTest.TheEndComesAfterTheLastByte", "ended the other direction, too"),
    "clean_abort": ("StreamTest.AbortIsNoOrderlyEnd", "an abort looked like an orderly end"),
    "deaf_abort": ("StreamTest.AbortIsNoOrderlyEnd", "the peer never heard of the abort"),
    "error_while_alive": ("ConnectionTest.ConnectAndAccept", "error() while it lives"),
    "no_error": ("StreamTest.AbortIsNoOrderlyEnd", "error() does not say why"),
    "lingering": ("StreamTest.DestroyedStreamEndsThePeer", "never heard that the stream was destroyed"),
    "stuck_threshold": ("StreamTest.TheReadThresholdHidesNothing", "lowered tells of what has come"),
    "threshold_hides_end": ("StreamTest.TheReadThresholdHidesNothing", "the end of the stream waits for the threshold"),
    "all_unacknowledged": ("StreamTest.WhatArrivedIsAcknowledged", "count as unacknowledged"),
    "no_address": ("ConnectionTest.ConnectAndAccept", "\"\" is not of the form host:port"),
    "no_port": ("ConnectionTest.ConnectAndAccept", "\"localhost\" is not of the form host:port"),
    "swapped_addresses": ("ConnectionTest.ConnectAndAccept", "is not where the other end listens"),
    "unread_replaced": ("StreamTest.GoesOnInAnotherProcess", "behind what the caller has"),
    "release_ends": ("StreamTest.GoesOnInAnotherProcess", "the peer heard of it"),
    "write_after_release": ("StreamTest.GoesOnInAnotherProcess", "a stream that was released takes bytes"),
    "uninherited": ("StreamTest.ListenersGoOnInAnotherProcess", "cannot listen"),
    "unread_dropped": ("StreamTest.GoesOnInAnotherProcess", "is not the one that was sent"),
}

# The same of the options that the simulated transport never gets to see as they were.
OPTION_NAMED_BY = {
    "no_prepare": ("RdmaConnectionTest.PrepareFailsTheConnect", "prepare() saw another endpoint than `done`"),
    "no_accept_prepare": ("RdmaConnectionTest.PrepareFailsTheAccept", "the attempt succeeded"),
    "renamed_error": ("RdmaConnectionTest.PrepareFailsTheConnect", "ends with the error that prepare() gave"),
    "no_private_data_of": ("RdmaConnectionTest.PrivateDataOfThePreparedEndpointBothWays", "asked by any"),
    "cut_private_data": ("RdmaConnectionTest.PrivateDataBothWays", "of private data"),
    "shortened_data": ("RdmaConnectionTest.TooMuchPrivateDataIsRefused", "the attempt succeeded"),
    "no_reject_data": ("RdmaConnectionTest.RejectCarriesPrivateData", "no private data with"),
    "no_resources": ("RdmaConnectionTest.ReceiveQueueBeyondTheLimitIsRefused", "the attempt succeeded"),
    "shortened_queue": ("RdmaConnectionTest.QueuesBeyondTheLimitAreRefused", "the attempt succeeded"),
    "no_on_disconnect": ("RdmaConnectionTest.OnDisconnectRunsOnceAtBothEnds", "on_disconnect did not run"),
    "second_on_disconnect": ("RdmaConnectionTest.OnDisconnectRunsOnceAtBothEnds", "Which is: 2"),
}


def run(defect, *flags):
    """The suite's exit status, what each test that failed says, and the number of all."""
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
    failed = collections.defaultdict(str)
    for test in tests:
        if test["outcome"] == "failed":
            failed[f"{test['suite']}.{test['name']}"] += "\n".join(test["failures"])
    return done.returncode, failed, len(tests)


class BrokenVariantsTest(unittest.TestCase):
    def expect_pass(self, variant, least):
        status, failed, count = run(variant)
        self.assertEqual(failed, {})
        self.assertEqual(status, 0)
        self.assertGreater(count, least)

    def test_none_passes(self):
        self.expect_pass("none", 200)

    def test_forwarding_passes(self):
        self.expect_pass("fwd_none", 30)

    def test_options_as_they_are_pass(self):
        status, failed, count = run("option_none", *only(["RdmaConnectionTest"]))
        self.assertEqual((status, failed), (0, {}))
        self.assertGreater(count, 20)


def only(tests):
    """The flags for these tests, or for all."""
    return () if WHOLE else (f"--gtest_filter={':'.join(f'*{test}*' for test in tests)}",)


def add_case(defect, expected):
    def test(self):
        status, failed, _ = run(defect, *only(expected))
        print(f"{defect}: caught by {len(failed)} tests: {', '.join(sorted(failed))}", flush=True)
        self.assertEqual(status, 1)
        self.assertEqual(set(expected) - set(failed), set(), "these tests did not notice")

    setattr(BrokenVariantsTest, f"test_{defect}", test)


def add_named_case(variant, expected, words):
    def test(self):
        status, failed, _ = run(variant, *only([expected]))
        self.assertEqual(status, 1)
        self.assertIn(words, failed[expected])

    setattr(BrokenVariantsTest, f"test_{variant}", test)


for name, tests_that_notice in CAUGHT_BY.items():
    add_case(name, tests_that_notice)
for name, (test_that_notices, what_it_says) in NAMED_BY.items():
    add_named_case(f"fwd_{name}", test_that_notices, what_it_says)
for name, (test_that_notices, what_it_says) in OPTION_NAMED_BY.items():
    add_named_case(f"option_{name}", test_that_notices, what_it_says)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
