#!/usr/bin/env python3
"""One portal of verbs:// on all addresses of two devices, of which only one can invalidate keys remotely.

Usage, in a guest with both devices: two_devices_test.py SKIFF SKIFFD

Soft-RoCE has memory windows and Send with Invalidate; Soft-iWARP has no memory windows. What a connection does is up to
its own device, whichever the backend found first.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from processes import Heard, expect, output_of, wait_for  # pylint: disable=wrong-import-position

# Device, address, and whether keys are invalidated remotely.
DEVICES = (("rxe0", os.environ.get("SKIFF_VM_ROCE_ADDRESS", ""), True),
           ("siw0", os.environ.get("SKIFF_VM_IWARP_ADDRESS", ""), False))
# Both ends know the keys of RFC 7145.
DIALECT = "RFC 7145, write base offset of solicited data"
RUN_SECONDS = 5


class AllAddressesSkiffd(peers.Skiffd):
    """Skiff's target on every address of the guest."""

    scheme = "verbs"
    host = "0.0.0.0"
    port = 3260


class TwoDevicesTest:
    """The cases of one device."""

    def __init__(self, skiff, target, device, address, remote):
        self._skiff = skiff
        self._target = target
        self._device = device
        self._url = f"iser://{address}:{target.port}/{target.name}"
        self._remote = remote

    def initiator_says(self):
        report = json.loads(output_of(self._skiff, "ping", self._url, "-c", "1", "--json"))
        found = report["session"]
        for key, value in (("data_model", "iSER"), ("transport", "verbs"), ("device", self._device),
                           ("remote_invalidation", self._remote),
                           ("dialect", DIALECT)):
            expect(f"{key} is {value}: {found}", value == found[key])

    def both_count_it(self):
        """Reads and writes, verified; the initiator's counters, and the target's words of its session."""
        with subprocess.Popen(
            [self._skiff, "perf", f"{self._url}/0", "--rw=randrw", "--verify", "--verbose", "--json", "--bs=16k", "--iodepth=16",
             "--size=4m", f"--runtime={RUN_SECONDS}s"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as load:
            try:
                heard = Heard(load)
                heard.wait_for(r": connected, iSER ")
                self._target_says()
                wait_for("the end of skiff perf", lambda: heard.says("") and load.poll() is not None, seconds=60)
                heard.says("")
            finally:
                load.kill()
        expect(f"skiff perf ends with status 0: {heard.text}", load.returncode == 0)
        report = json.JSONDecoder().raw_decode(heard.text[re.search(r"^\{", heard.text, re.MULTILINE).start():])[0]
        session = report["sessions"][0]
        expect(f"blocks were checked: {report}", report["verified_blocks"])
        counters = session["counters"]
        expect(f"remote invalidations only with windows: {counters}", (counters["remote_invalidations"] > 0) == self._remote)

    def _target_says(self):
        # A session with a few commands behind it.
        wait_for("a session", lambda: re.search(r"TSIH.* \d{3,} commands", self._target.sessions()))
        said = self._target.sessions()
        word = "yes" if self._remote else "no"
        expect(f"device {self._device}, remote invalidation {word}: {said}",
               f"device {self._device}, remote invalidation {word}:" in said)
        expect(f"the target says {DIALECT}: {said}", f"iSER: {DIALECT}\n" in said)
        invalidated = re.search(r"(\d+) keys invalidated", said)
        expect(f"keys are invalidated only where it says so: {said}",
               invalidated and (int(invalidated[1]) > 0) == self._remote)

    def goes_on(self):
        expect(f"skiffd runs: {self._target.process.poll()}", self._target.process.poll() is None)
        expect(f"no connection was closed for what it sent: {self._target.log()}", " closing: " not in self._target.log())


def main():
    skiff, skiffd = (os.path.abspath(program) for program in sys.argv[1:3])
    collected = Cases("two_devices")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        with AllAddressesSkiffd(skiffd, ("ram:16MiB",), directory) as target:
            # The second time, after a connection over the other device.
            for device, address, remote in DEVICES + DEVICES[:1]:
                test = TwoDevicesTest(skiff, target, device, address, remote)
                collected.run(f"{device}: what the initiator says", test.initiator_says)
                collected.run(f"{device}: what both do", test.both_count_it)
                collected.run(f"{device}: the target goes on", test.goes_on)
            status = collected.finish()
            if status != 0:
                print(f"-- skiffd\n{target.log()[-6000:]}\n-- the kernel\n{output_of('dmesg')[-3000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
