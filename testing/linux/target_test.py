#!/usr/bin/env python3
"""Linux's iSCSI target (LIO) with Skiff's initiator, in a guest: over iSER on RDMA devices, and over TCP.

Usage: target_test.py SKIFF TASK_MANAGEMENT_PROBE TRANSPORT    where TRANSPORT is roce, iwarp or tcp
"""

import itertools
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
from cases import Cases  # pylint: disable=wrong-import-position
from chap import TargetCases  # pylint: disable=wrong-import-position
from initiator import Initiator, manages_tasks  # pylint: disable=wrong-import-position
from kernel import KernelLog, SlowDevice, data_keys, expect, run, wait_for  # pylint: disable=wrong-import-position
from lio import Lio  # pylint: disable=wrong-import-position

TARGET = "iqn.2026-11.org.example.skiff:lio"
# Scheme of skiff's URLs and of the transport, address (of the guest's only device), what follows the URL, the data model
# in skiff's words.
TRANSPORTS = {
    "roce": ("iser", "verbs", "192.168.77.1", "?transport=verbs", "iSER"),
    "iwarp": ("iser", "verbs", "192.168.77.1", "?transport=verbs", "iSER"),
    "tcp": ("iscsi", "tcp", "127.0.0.1", "", "iSCSI"),
}
# LIO has no more than ABORT TASK and LOGICAL UNIT RESET (target_tmr_work()), and lets nobody reset a target.
REFUSED = "--refused=ABORT TASK SET,CLEAR TASK SET,TARGET WARM RESET"
RAM_BYTES = 128 << 20
FILE_BYTES = 64 << 20
SLOW_MIB = 32
SLOW_LUN = 2
DISKS = {"ram": 0, "file": 1}
# Block size, depth, and how much of the disk is used.
LOADS = (("512", 1, "256k"), ("4k", 32, "8m"), ("128k", 8, "8m"), ("4m", 2, "8m"))


class TargetTest:
    """The cases."""

    def __init__(self, target, initiator, iser, manages):
        self._target = target
        self._initiator = initiator
        self._iser = iser
        self._manages = manages  # Runs the probe with a LUN.

    def facts(self):
        self._initiator.vendor("ram", "LIO-ORG")
        self._initiator.size("ram", RAM_BYTES)
        self._initiator.size("file", FILE_BYTES)
        self._initiator.list_disks(3)

    def verified(self, disk, block_size, depth, size):
        self._initiator.perf(disk, f"--bs={block_size}", f"--iodepth={depth}", f"--size={size}", "--runtime=0.5s")

    def data_keys(self, immediate, initial_r2t, unsolicited=True):
        """With and without immediate and unsolicited data; sizes on both sides of FirstBurstLength."""
        agreed = data_keys(immediate, initial_r2t, unsolicited)
        flags = ("--unsolicited-data-out",) if self._iser and unsolicited else ()
        self._target.set("ImmediateData", immediate)
        self._target.set("InitialR2T", initial_r2t)
        for block_size, size in (("512", "1m"), ("4k", "4m"), ("64k", "4m"), ("68k", "4m")):
            report = self._initiator.perf("ram", f"--bs={block_size}", "--iodepth=8", f"--size={size}", "--runtime=0.5s",
                                          *flags)
            for session in report["sessions"]:
                expect(f"{agreed} is agreed on: {session['keys']}", agreed.items() <= session["keys"].items())

    def task_management(self, disk):
        self._manages(DISKS[disk])

    def aborts(self, slow):
        """ABORT TASK for a command that waits for its disk, and hears nothing more of it."""
        log = KernelLog()

        def disturb():
            wait_for("LIO finds what to abort", lambda: log.matching("ABORT_TASK: Found referenced"))
            slow.release()
        slow.hold()
        try:
            output = self._manages(SLOW_LUN, disturb=disturb)
        finally:
            slow.release()
        expect(f"LIO aborted a command: {log.lines()}", log.matching("ABORT_TASK: Sending TMR_FUNCTION_COMPLETE"))
        completed = int(re.search(r"ABORT TASK: (\d+) of", output)[1])
        expect(f"some of 32 commands did not complete: {output}", completed < 32)

    def resets_under_load(self):
        # Now and then, LIO drops a command that a reset by another session aborts (docs/interoperability.md).
        def disturb():
            wait_for("a session", self._target.sessions)
            for _ in range(3):
                time.sleep(0.7)
                self._initiator.reset("ram")
        self._initiator.perf_during("ram", disturb, "--bs=16k", "--iodepth=16", "--size=8m", "--runtime=4s",
                                     "--command-timeout=10s")

    def disabled_under_load(self):
        """Its sessions end, and it is there again: every command is done in the end."""
        def disturb():
            wait_for("a session", self._target.sessions)
            time.sleep(1)
            self._target.enable(False)
            time.sleep(0.5)
            self._target.enable(True)
        self._initiator.perf_during("file", disturb, "--bs=16k", "--iodepth=16", "--size=8m", "--runtime=5s")

    def disabled_while_idle(self):
        """The same between two pings."""
        def disturb():
            wait_for("a session", self._target.sessions)
            time.sleep(1)
            self._target.enable(False)
            self._target.enable(True)
        report = self._initiator.ping_during(disturb, "--count=2", "--interval=4s")
        expect(f"it reconnected between two pings: {report}",
               report["received"] == 2 and report["session"]["reconnects"] == 1)

    def no_session_is_left(self):
        wait_for(f"no session: {self._target.sessions()}", lambda: not self._target.sessions())


def main():
    program, probe, transport = *map(os.path.abspath, sys.argv[1:3]), sys.argv[3]
    scheme, carrier, address, suffix, model = TRANSPORTS[transport]
    iser = model == "iSER"
    collected = Cases(f"linux_target_{transport}")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        slow = SlowDevice(SLOW_MIB)
        target = Lio(TARGET, address, iser, RAM_BYTES, f"{directory}/disk.img", FILE_BYTES, slow.device,
                     tcp_apart=transport == "iwarp")
        initiator = Initiator(program, f"{scheme}://{target.portal}", TARGET, DISKS, suffix, model)
        # Over iSER, a response may be numbered, and come, after that of the function that has aborted its task.
        options = (REFUSED, "--may_be_restored") if iser else (REFUSED,)
        test = TargetTest(target, initiator, iser, lambda lun, **more: manages_tasks(
            probe, f"{carrier}://{target.portal}", TARGET, lun, *options, **more))
        collected.run("discovery", initiator.discover)
        collected.run("facts", test.facts)
        for disk in DISKS:
            collected.run(f"copies: {disk}", initiator.copies, disk)
        for disk, load in itertools.product(DISKS, LOADS):
            collected.run(f"verified I/O: {disk}, {load[0]}, depth {load[1]}", test.verified, disk, *load)
        for immediate, initial_r2t in itertools.product(("Yes", "No"), repeat=2):
            collected.run(f"ImmediateData={immediate}, InitialR2T={initial_r2t}", test.data_keys, immediate, initial_r2t)
        if iser:
            collected.run("InitialR2T=No is declined", test.data_keys, "Yes", "No", False)
        for disk in DISKS:
            collected.run(f"task management: {disk}", test.task_management, disk)
        collected.run("aborts", test.aborts, slow)
        collected.run("resets under load", test.resets_under_load)
        collected.run("disabled and enabled while idle", test.disabled_while_idle)
        # Under load, siw loses work that was posted, and LIO waits for its end for ever (docs/interoperability.md).
        if transport != "iwarp":
            collected.run("disabled and enabled under load", test.disabled_under_load)
        collected.run("no session is left", test.no_session_is_left)
        TargetCases(program, target, scheme, suffix, directory).run(collected)
        status = collected.finish()
        if status != 0:
            print(f"-- the kernel\n{run('dmesg')[-6000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
