#!/usr/bin/env python3
"""What skiff says of targets that have no disks, refuse commands, or do not answer.

Usage: odd_targets_test.py SKIFFD SKIFF
"""

import json
import os
import pathlib
import struct
import sys
import time
import unittest

from tools_test import FAILED, MIB, NAME, NO_SESSION, OK, Daemon, skiff

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testing" / "daemon"))
import raw_target
from raw_target import HARDWARE_ERROR, ILLEGAL_REQUEST, INQUIRY, REPORT_LUNS

DISK, CD_ROM, NONE = 0x00, 0x05, 0x7f  # The first byte of INQUIRY data.


def inquiry(kind):
    return bytes([kind, 0, 6, 2, 31, 0, 0, 2]) + b"ODD     ODD DEVICE      1.0 "


class OddTarget(raw_target.Target):
    """Has `luns` with INQUIRY and REPORT LUNS, and is broken for all else; no REPORT LUNS without any."""

    def __init__(self, luns=None):
        super().__init__(self.execute, name=NAME)
        self.devices = luns

    def execute(self, connection, command):
        operation = command.cdb[0]
        answer = None
        if operation == REPORT_LUNS and self.devices is not None:
            answer = struct.pack(">II", 8 * len(self.devices), 0)
            answer += b"".join(bytes([0, number]) + bytes(6) for number in self.devices)
        elif operation == INQUIRY and not command.cdb[1] & 1:
            answer = inquiry((self.devices or {0: CD_ROM}).get(command.lun[1], NONE))
        if answer is not None:
            connection.data_in(command, answer[:command.length])
        elif operation == REPORT_LUNS:
            connection.check_condition(command, ILLEGAL_REQUEST, 0x20)
        else:
            connection.check_condition(command, HARDWARE_ERROR, 0x44)
        return True


class OddTargetsTest(unittest.TestCase):

    def test_inquiry_is_for_anything(self):
        with OddTarget({0: CD_ROM, 3: DISK}) as target:
            result = skiff("inquiry", target.url(0))
            self.assertEqual(result.returncode, OK, result.stderr)
            self.assertRegex(result.stdout.decode(), r"product: +ODD DEVICE")
            missing = skiff("inquiry", target.url(7))
            self.assertEqual(missing.returncode, FAILED)
            self.assertRegex(missing.stderr.decode(), "the target has no LUN 7; it has 0, 3$")

    def test_ls_tells_problems_below_its_table(self):
        with OddTarget({0: CD_ROM, 3: DISK}) as target:
            result = skiff("ls", target.url())
            self.assertEqual(result.returncode, FAILED, result.stderr)
            lines = result.stdout.decode().splitlines()
            self.assertRegex(lines[1], rf"^{NAME} +0 +- +- +ODD +ODD DEVICE +1.0$")
            self.assertRegex(lines[2], rf"^{NAME} +3 +-$")
            self.assertEqual(lines[3], f"{NAME} LUN 0: no disk, but of type 05h")
            self.assertRegex(lines[4], rf"^{NAME} LUN 3: .*HARDWARE ERROR")
            report = skiff("ls", target.url(), "--json")
            self.assertEqual(report.returncode, FAILED)
            luns = json.loads(report.stdout)["targets"][0]["luns"]
            self.assertEqual((luns[0]["device_type"], luns[1]["lun"]), (CD_ROM, 3))
            self.assertIn("problem", luns[1])
        with OddTarget({0: CD_ROM}) as target:
            self.assertEqual(skiff("ls", target.url()).returncode, OK)

    def test_ls_tries_lun_0_where_nothing_is_listed(self):
        with OddTarget() as target:
            result = skiff("ls", target.url())
            self.assertEqual(result.returncode, OK, result.stderr)
            self.assertRegex(result.stdout.decode(), rf"(?m)^{NAME} +0 +- +- +ODD +ODD DEVICE +1.0$")

    def test_discovery_obeys_the_command_timeout(self):
        with OddTarget() as target:
            result = skiff("discover", target.portal, "--command-timeout=200ms", "--timeout=30s")
            self.assertEqual(result.returncode, NO_SESSION)
            self.assertRegex(result.stderr.decode(),
                             r"did not answer a Text Request within 200ms .*--command-timeout sets the limit$")

    def test_a_discovery_that_trickles_ends(self):
        def text(connection, request):
            time.sleep(0.1)
            connection.text(request, b"T", final=False)

        with raw_target.Target(raw_target.nothing, text) as target:
            result = skiff("discover", target.portal, "--command-timeout=1s")
            self.assertEqual(result.returncode, NO_SESSION)
            self.assertRegex(result.stderr.decode(), r"did not (end its answer to|answer) a Text Request within 1s ")

    def test_few_of_many_luns_are_named(self):
        luns = [argument for number in range(20) for argument in ("--lun", f"ram:1MiB,lun={number * 10}")]
        daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--target", NAME, *luns)
        self.addCleanup(daemon.close)
        for command in ("capacity", "inquiry"):
            result = skiff(command, daemon.url(408))
            self.assertEqual(result.returncode, FAILED)
            self.assertRegex(result.stderr.decode(),
                             r"has no LUN 408; it has 0, 10, .*, 150 and 4 more \(ls lists them\)$")

    def test_advice_is_short_and_said_once(self):
        daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", "ram:1MiB")
        self.addCleanup(daemon.close)
        for scheme in ("iscsi", "auto"):
            result = skiff("capacity", f"{scheme}://{daemon.portal}/iqn.2026-11.com.example:other/0")
            self.assertEqual(result.returncode, NO_SESSION)
            told = result.stderr.decode().splitlines()[-1]
            self.assertEqual(told.count("discovery"), 1, told)
            self.assertLessEqual(told.count("check"), 1, told)
        no_rdma = skiff("capacity", f"iser://{daemon.portal}/{NAME}/0")
        self.assertEqual(no_rdma.returncode, NO_SESSION)
        self.assertLess(len(no_rdma.stderr), 600, no_rdma.stderr)
        self.assertRegex(no_rdma.stderr.decode(), r"by RDMA: verbs: .*; libfabric: .*skiff transports")

    def test_too_much_memory_is_warned_of(self):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        for size, expected in ((f"{2 * memory // MIB}MiB", True), ("1MiB", False)):
            daemon = Daemon("--listen", "tcp://127.0.0.1:0", "--target", NAME, "--lun", f"ram:{size}")
            self.addCleanup(daemon.close)
            self.assertIn("ready", daemon.ready)
            self.assertEqual("warn  RAM disks can grow to" in daemon.log, expected, daemon.log)
            self.assertEqual(daemon.end(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
