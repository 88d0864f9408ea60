#!/usr/bin/env python3
"""Debian's tgt with Skiff's initiator over iSER, in a guest.

Usage: tgt_iser_test.py SKIFF TASK_MANAGEMENT_PROBE TRANSPORT    where TRANSPORT is roce or iwarp
"""

import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / directory) for directory in ("interop", "linux", "vm"))]
sys.dont_write_bytecode = True
from cases import Cases  # pylint: disable=wrong-import-position
from initiator import Initiator, manages_tasks  # pylint: disable=wrong-import-position
from iser_peers import IserTgtd  # pylint: disable=wrong-import-position
from kernel import expect, run, wait_for  # pylint: disable=wrong-import-position

INITIATOR_NAME = "iqn.2026-11.org.example.skiff:initiator"
LUN_BYTES = 64 << 20
# Block size, depth, and how much of the disk is used: no more than is written in a few seconds there.
LOADS = (("512", 1, "256k"), ("4k", 32, "4m"), ("64k", 16, "16m"), ("512k", 8, "32m"), ("1m", 4, "32m"))
UNDER_LOAD_SECONDS = 150
# docs/interoperability.md says what it does with others.
FUNCTIONS = ("--refused=CLEAR TASK SET", "--left_out=ABORT TASK SET,LOGICAL UNIT RESET,TARGET WARM RESET")


class TgtTest:
    """The cases."""

    def __init__(self, target, initiator):
        self._target = target
        self._initiator = initiator

    def facts(self):
        self._initiator.vendor("disk", "IET")
        self._initiator.size("disk", LUN_BYTES)
        # LUN 0 is no disk.
        self._initiator.list_disks(2)

    def verified(self, block_size, depth, size):
        self._initiator.perf("disk", f"--bs={block_size}", f"--iodepth={depth}", f"--size={size}", "--runtime=0.5s")

    def resets_under_load(self, resets, *options):
        def disturb():
            wait_for("a session", self._target.connections)
            for _ in range(resets):
                time.sleep(0.7)
                self._initiator.reset("disk")
        self._initiator.perf_during("disk", disturb, "--bs=16k", "--iodepth=16", "--size=4m", "--runtime=4s",
                                    *options, seconds=UNDER_LOAD_SECONDS)

    def restart_under_load(self, *options):
        """tgtd killed: every command is done in the end, every block is what was written last."""
        def disturb():
            wait_for("a session", self._target.connections)
            time.sleep(1.5)
            self._target.kill()
            time.sleep(0.3)
            self._target.start()
        output = self._initiator.perf_during("disk", disturb, "--bs=4k", "--iodepth=16", "--size=4m", "--runtime=5s",
                                             *options, seconds=UNDER_LOAD_SECONDS)
        expect(f"the session was lost and restored: {output}",
               "session lost" in output and "session restored" in output)

    def no_session_is_left(self):
        wait_for("no session", lambda: not self._target.connections())


def main():
    program, probe, transport = *map(os.path.abspath, sys.argv[1:3]), sys.argv[3]
    collected = Cases(f"tgt_iser_{transport}")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        image = pathlib.Path(directory) / "lun"
        with open(image, "wb") as file:
            file.truncate(LUN_BYTES)
        with IserTgtd(image, directory, [INITIATOR_NAME]) as target:
            initiator = Initiator(program, f"iser://{target.portal}", target.name, {"disk": target.lun},
                                  "?transport=verbs", options=(f"--initiator-name={INITIATOR_NAME}",))
            test = TgtTest(target, initiator)
            collected.run("discovery", initiator.discover)
            collected.run("facts", test.facts)
            collected.run("copies", initiator.copies, "disk")
            for block_size, depth, size in LOADS:
                collected.run(f"verified I/O: {block_size}, depth {depth}", test.verified, block_size, depth, size)
            collected.run("task management", manages_tasks, probe, f"verbs://{target.portal}", target.name, target.lun,
                          f"--initiator_name={INITIATOR_NAME}", *FUNCTIONS)
            # rxe takes 50 s to destroy a queue pair of which another one still holds messages. That can be the
            # session's when tgtd is killed, and when a reset ends the connection, as it does now and then.
            patience = ("--reconnect-timeout=120s", "--command-timeout=0") if transport == "roce" else ()
            collected.run("resets under load", test.resets_under_load, 1 if transport == "roce" else 3, *patience)
            collected.run("a restart under load", test.restart_under_load, *patience)
            if transport == "roce":
                collected.run("no session is left", test.no_session_is_left)
            else:
                collected.skipped("no session is left", "tgt frees a connection with TIMEWAIT_EXIT, unknown to iWARP")
            status = collected.finish()
            if status != 0:
                print(f"-- tgtd\n{target.log()[-6000:]}\n-- the kernel\n{run('dmesg')[-6000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
