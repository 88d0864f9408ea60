#!/usr/bin/env python3
"""Linux's iSCSI target (LIO) with Skiff's initiator, in a guest: over iSER on Soft-RoCE, and over TCP.

Usage: target_test.py SKIFF TRANSPORT    where TRANSPORT is roce or tcp

Not over iWARP: LIO makes a portal for iSER beside the one for TCP at the same address and port
(lio_target_np_iser_store()), and siw listens with a socket of TCP's own, for which that port is taken.
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
from cases import Cases  # pylint: disable=wrong-import-position
from kernel import Failure, expect, run, wait_for  # pylint: disable=wrong-import-position
from lio import Lio  # pylint: disable=wrong-import-position

TARGET = "iqn.2026-11.org.example.skiff:lio"
# Scheme of skiff's URLs, address (of the guest's only device), what follows the URL, the data model in skiff's words.
TRANSPORTS = {
    "roce": ("iser", "192.168.77.1", "?transport=verbs", "iSER"),
    "tcp": ("iscsi", "127.0.0.1", "", "iSCSI"),
}
RAM_BYTES = 128 << 20
FILE_BYTES = 64 << 20
MIB = 1 << 20
DISKS = {"ram": 0, "file": 1}


class TargetTest:
    """The cases."""

    def __init__(self, program, target, scheme, suffix, model):
        self._program = program
        self._target = target
        self._portal = f"{scheme}://{target.portal}"
        self._suffix = suffix
        self._model = model

    def _url(self, disk):
        return f"{self._portal}/{TARGET}/{DISKS[disk]}{self._suffix}"

    def _skiff(self, *arguments, **options):
        return run(self._program, *arguments, **options)

    def discovery(self):
        found = self._skiff("discover", f"{self._portal}{self._suffix}")
        expect(f"{TARGET} is at {self._target.portal}: {found}", TARGET in found and self._target.portal in found)

    def facts(self):
        expect("INQUIRY", "LIO-ORG" in self._skiff("inquiry", self._url("ram")))
        for disk, size in (("ram", RAM_BYTES), ("file", FILE_BYTES)):
            found = json.loads(self._skiff("capacity", self._url(disk), "--json"))
            expect(f"the size of {disk}: {found}", found["capacity"]["size"] == size)
        found = self._skiff("ls", f"{self._portal}{self._suffix}")
        expect(f"both disks are listed: {found}", found.count(TARGET) == 2)

    def copies(self, disk):
        """There and back; what comes back is what went."""
        data = os.urandom(12 * MIB)
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            source, back = (pathlib.Path(directory) / name for name in ("source", "back"))
            source.write_bytes(data)
            self._skiff("copy", source, self._url(disk), "--verify", "--quiet")
            self._skiff("copy", self._url(disk), back, "--length", len(data), "--quiet")
            expect("what was written is read", back.read_bytes() == data)

    def _perf_command(self, disk, *options):
        return [self._program, "perf", self._url(disk), "--rw=randrw", "--verify", "--verbose", "--json",
                *options]

    def _check_report(self, text):
        report, _ = json.JSONDecoder().raw_decode(text[re.search(r"^\{", text, re.MULTILINE).start():])
        expect(f"it ran over {self._model}: {text}", report["data_model"] == self._model)
        expect(f"blocks were read, written and checked: {text}",
               report["read"]["ios"] and report["write"]["ios"] and report["verified_blocks"])

    def verified(self, disk, size, depth):
        self._check_report(run(*self._perf_command(disk, f"--bs={size}", f"--iodepth={depth}", "--size=8m",
                                                   "--runtime=2s")))

    def data_keys(self, immediate, initial_r2t):
        self._target.set("ImmediateData", immediate)
        self._target.set("InitialR2T", initial_r2t)
        for size in ("512", "4k", "64k", "68k"):
            self._check_report(run(*self._perf_command("ram", f"--bs={size}", "--iodepth=8", "--size=4m",
                                                       "--runtime=0.5s")))

    def resets_under_load(self):
        with subprocess.Popen(self._perf_command("ram", "--bs=16k", "--iodepth=16", "--size=8m", "--runtime=4s"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            wait_for("a session", self._target.sessions)
            for _ in range(3):
                time.sleep(0.7)
                self._skiff("reset", self._url("ram"))
            self._ends_well(process)

    def disabled_under_load(self):
        """Its sessions end, and it is there again: every command is done in the end."""
        with subprocess.Popen(self._perf_command("file", "--bs=16k", "--iodepth=16", "--size=8m", "--runtime=5s"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            time.sleep(1.5)
            self._target.enable(False)
            time.sleep(0.5)
            self._target.enable(True)
            self._ends_well(process)

    def _ends_well(self, process):
        try:
            output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure("skiff perf hangs") from None
        expect(f"skiff perf ends with status 0, not {process.returncode}: {output}", process.returncode == 0)
        self._check_report(output)

    def no_session_is_left(self):
        wait_for(f"no session: {self._target.sessions()}", lambda: not self._target.sessions())


def main():
    program, transport = os.path.abspath(sys.argv[1]), sys.argv[2]
    scheme, address, suffix, model = TRANSPORTS[transport]
    collected = Cases(f"linux_target_{transport}")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        target = Lio(TARGET, address, model == "iSER", RAM_BYTES, f"{directory}/disk.img", FILE_BYTES)
        test = TargetTest(program, target, scheme, suffix, model)
        collected.run("discovery", test.discovery)
        collected.run("facts", test.facts)
        for disk in DISKS:
            collected.run(f"copies: {disk}", test.copies, disk)
        for disk, (size, depth) in itertools.product(DISKS, (("512", 1), ("4k", 32), ("128k", 8), ("4m", 2))):
            collected.run(f"verified I/O: {disk}, {size}, depth {depth}", test.verified, disk, size, depth)
        for immediate, initial_r2t in itertools.product(("Yes", "No"), repeat=2):
            collected.run(f"ImmediateData={immediate}, InitialR2T={initial_r2t}", test.data_keys, immediate, initial_r2t)
        collected.run("resets under load", test.resets_under_load)
        collected.run("disabled and enabled under load", test.disabled_under_load)
        collected.run("no session is left", test.no_session_is_left)
        status = collected.finish()
        if status != 0:
            print(f"-- the kernel\n{run('dmesg')[-6000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
