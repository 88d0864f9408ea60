#!/usr/bin/env python3
"""libfabric's verbs provider, which frames private data in its own way, with ends that use rdma_cm: Skiff's and Linux's.

Usage, in a guest with one device: mixed_ends_test.py SKIFF SKIFFD TRANSPORT    where TRANSPORT is roce or iwarp
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "linux", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from initiator import Initiator  # pylint: disable=wrong-import-position
from kernel import Session, expect, iscsid, run  # pylint: disable=wrong-import-position
from lio import Lio  # pylint: disable=wrong-import-position

MIB = 1 << 20
RAM_MIB = 32
ADDRESS = os.environ.get("SKIFF_VM_ADDRESS", "")
LIO = "iqn.2026-11.org.example.skiff:lio"
# What follows the URL of an initiator.
BY_VERBS = "?transport=verbs"
BY_LIBFABRIC = "?transport=libfabric&provider=verbs"
LOAD = ("--bs=16k", "--iodepth=16", "--size=8m", "--runtime=1s")


class Skiffd(peers.Skiffd):
    """Skiff's target by one of the two."""

    host = ADDRESS

    def __init__(self, program, directory, scheme, port):
        super().__init__(program, (f"ram:{RAM_MIB}MiB",), directory)
        self.scheme = scheme
        self.port = port

    def _description(self):
        description = super()._description()
        if self.scheme == "libfabric":
            description[1] += "?provider=verbs"
        return description

    def expect_served(self):
        expect(f"skiffd runs: {self.process.poll()}", self.process.poll() is None)
        expect(f"no connection was closed for what it sent: {self.log()}", " closing: " not in self.log())


class MixedTest:
    """The cases."""

    def __init__(self, skiff, by_verbs, by_libfabric, lio):
        self._skiff = skiff
        self._by_verbs = by_verbs
        self._by_libfabric = by_libfabric
        self._lio = lio

    def _initiator(self, target, suffix):
        return Initiator(self._skiff, f"iser://{target.portal}", target.name, {"ram": 0}, suffix)

    def _verified(self, target, suffix, transport):
        initiator = self._initiator(target, suffix)
        initiator.discover()
        report = initiator.perf("ram", *LOAD)
        session = report["sessions"][0]
        expect(f"by {transport}: {session}", session["transport"] == transport)
        expect(f"the session lasted: {session}", session["reconnects"] == 0)
        # This provider has neither windows nor Send with Invalidate.
        expect(f"no key was invalidated remotely: {session}",
               not session["remote_invalidation"] and session["counters"]["remote_invalidations"] == 0)
        target.expect_served()

    def initiator_by_libfabric(self):
        self._verified(self._by_verbs, BY_LIBFABRIC, "libfabric")

    def target_by_libfabric(self):
        self._verified(self._by_libfabric, BY_VERBS, "verbs")

    def linux_initiator(self):
        session = Session("iser", self._by_libfabric.portal, self._by_libfabric.name)
        with iscsid():
            session.discover()
            session.login()
            try:
                disk = session.disk(0)
                errors = disk.errors  # The unit attention of a new nexus.
                disk.fio("--bsrange=512-256k", "--iodepth=16", f"--size={8 * MIB}", f"--io_size={8 * MIB}", seconds=180)
                expect(f"no command failed: {disk.errors}", disk.errors == errors)
            finally:
                session.logout()
        self._by_libfabric.expect_served()

    def linux_target_by_verbs(self):
        self._initiator(self._lio, BY_VERBS).perf("ram", *LOAD)

    def linux_target(self):
        """LIO takes the byte in front for flags, and would invalidate keys of regions."""
        done = subprocess.run([self._skiff, "ls", f"iser://{self._lio.portal}{BY_LIBFABRIC}", "--timeout=20s"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                              check=False)
        expect(f"it is refused: {done}", done.returncode != 0 and not done.stdout)
        for part in ("about to invalidate keys remotely", "transport=verbs"):
            expect(f"it says {part}: {done}", part in done.stderr)


def run_all(collected, test):
    collected.run("Skiff's initiator by libfabric, its target by verbs", test.initiator_by_libfabric)
    collected.run("Skiff's initiator by verbs, its target by libfabric", test.target_by_libfabric)
    collected.run("Linux's initiator, Skiff's target by libfabric", test.linux_initiator)
    collected.run("Skiff's initiator by verbs, Linux's target", test.linux_target_by_verbs)
    # The last: LIO takes no other login for 15 s then.
    collected.run("Skiff's initiator by libfabric, Linux's target", test.linux_target)


def main():
    skiff, skiffd, transport = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    collected = Cases(f"mixed_ends_{transport}")
    with tempfile.TemporaryDirectory(dir="/tmp") as first, tempfile.TemporaryDirectory(dir="/tmp") as second, \
            Skiffd(skiffd, first, "verbs", 3260) as by_verbs, Skiffd(skiffd, second, "libfabric", 3261) as by_libfabric:
        lio = Lio(LIO, ADDRESS, True, RAM_MIB * MIB, port=3262, tcp_apart=transport == "iwarp")
        run_all(collected, MixedTest(skiff, by_verbs, by_libfabric, lio))
        status = collected.finish()
        if status != 0:
            print(f"-- skiffd by verbs\n{by_verbs.log()[-4000:]}\n-- skiffd by libfabric\n{by_libfabric.log()[-4000:]}\n"
                  f"-- the kernel\n{run('dmesg')[-4000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
