#!/usr/bin/env python3
"""Skiff's initiator and target over iSER by libfabric's verbs provider, in a guest.

Usage: libfabric_iser_test.py SKIFF SKIFFD TRANSPORT    where TRANSPORT is roce or iwarp
"""

import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "linux", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from initiator import Initiator  # pylint: disable=wrong-import-position
from kernel import expect, run, wait_for  # pylint: disable=wrong-import-position

RAM_BYTES = 32 << 20
FILE_BYTES = 48 << 20
LUNS = {"ram": 0, "file": 1}
SUFFIX = "?transport=libfabric&provider=verbs"
# libfabric names a domain as verbs names the device.
DEVICES = {"roce": "rxe0", "iwarp": "siw0"}
# Block size, depth, and how much of the disk is used. The last is longer than one of the target's buffers.
LOADS = (("512", 1, "128k"), ("4k", 32, "2m"), ("64k", 16, "8m"), ("2m", 4, "16m"))


class FabricSkiffd(peers.Skiffd):
    """Skiff's target at the address of the guest's device."""

    scheme = "libfabric"
    host = os.environ.get("SKIFF_VM_ADDRESS", "")
    port = 3260

    def _description(self):
        description = super()._description()
        description[1] += "?provider=verbs"
        return description


class LibfabricTest:
    """The cases."""

    def __init__(self, target, initiator, device):
        self._target = target
        self._initiator = initiator
        self._device = f"libfabric verbs on {device}"

    def _url(self, lun=""):
        return f"iser://{self._target.portal}/{self._target.name}{lun}{SUFFIX}"

    def sizes(self):
        self._initiator.size("ram", RAM_BYTES)
        self._initiator.size("file", FILE_BYTES)
        self._initiator.list_disks(2)

    def report(self):
        """Both ends say what the session runs on."""
        found = json.loads(self._initiator.skiff("ping", self._url(), "-c", "1", "--json"))["session"]
        for key, value in (("data_model", "iSER"), ("transport", "libfabric"), ("device", self._device)):
            expect(f"{key} is {value}: {found}", found[key] == value)
        told = self._initiator.skiff("ping", self._url(), "-c", "1", "-v")
        expect(f"-v says iSER over libfabric, on {self._device}: {told}",
               "iSER over libfabric" in told and f"device {self._device}" in told)

    def target_report(self):
        def ask():
            wait_for("a session", lambda: "TSIH" in self._target.sessions())
            found = self._target.sessions()
            expect(f"skiffd says iSER over libfabric, on {self._device}: {found}",
                   "iSER over libfabric" in found and f"device {self._device}" in found)
        self._initiator.perf_during("ram", ask, "--bs=4k", "--size=64k", "--runtime=4s")

    def verified(self, disk, block_size, depth, size):
        self._initiator.perf(disk, f"--bs={block_size}", f"--iodepth={depth}", f"--size={size}", "--runtime=0.5s")

    def whole_file(self):
        """By `skiff write` and `skiff read`."""
        data = os.urandom(3 << 20)
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            source, back = (pathlib.Path(directory) / name for name in ("source", "back"))
            source.write_bytes(data)
            for disk, lun in LUNS.items():
                self._initiator.skiff("write", self._url(f"/{lun}"), "-i", source, "-q")
                self._initiator.skiff("read", self._url(f"/{lun}"), "--length", len(data), "-o", back, "-q")
                expect(f"what was written to {disk} is read", back.read_bytes() == data)

    def goes_on(self):
        expect(f"skiffd runs: {self._target.process.poll()}", self._target.process.poll() is None)
        expect(f"no connection was closed for what it sent: {self._target.log()}", " closing: " not in self._target.log())


def run_all(program, target, transport, collected):
    initiator = Initiator(program, f"iser://{target.portal}", target.name, LUNS, SUFFIX)
    test = LibfabricTest(target, initiator, DEVICES[transport])
    collected.run("discovery", initiator.discover)
    collected.run("sizes", test.sizes)
    collected.run("the initiator's report", test.report)
    collected.run("the target's report", test.target_report)
    collected.run("whole files", test.whole_file)
    for disk in LUNS:
        for block_size, depth, size in LOADS:
            collected.run(f"verified I/O: {disk}, {block_size}, depth {depth}", test.verified, disk, block_size, depth, size)
    collected.run("the target goes on", test.goes_on)


def main():
    skiff, skiffd, transport = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    collected = Cases(f"libfabric_iser_{transport}")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        luns = (f"ram:{RAM_BYTES}", f"file:{directory}/disk.img,size={FILE_BYTES}")
        with FabricSkiffd(skiffd, luns, directory) as target:
            run_all(skiff, target, transport, collected)
            status = collected.finish()
            if status != 0:
                print(f"-- skiffd\n{target.log()[-6000:]}\n-- the kernel\n{run('dmesg')[-4000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
