#!/usr/bin/env python3
"""`skiff doctor` in a guest: with an RDMA device whose link goes down, and without one.

Usage: doctor_test.py SKIFF SKIFFD DEVICE    where DEVICE is roce or none
"""

import contextlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from processes import expect, output_of, wait_for  # pylint: disable=wrong-import-position

SECONDS = 100
OPEN_FILES = 65536
FINE, WARNINGS, NO_SESSION = 0, 1, 3  # skiff's exit status.


class Skiffd(peers.Skiffd):
    """Skiff's target, by TCP or verbs."""

    port = 3260

    def __init__(self, program, scheme, address, directory):
        super().__init__(program, ("ram:16MiB",), directory)
        self.scheme = scheme
        self.host = address


class DoctorTest:
    """The cases."""

    def __init__(self, skiff, skiffd, address):
        self._skiff = skiff
        self._skiffd = skiffd
        self._address = address

    def _doctor(self, status, *url):
        """What it finds, by the check; it ends with `status`."""
        done = subprocess.run([self._skiff, "doctor", "--json", "--timeout=40s", *url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        expect(f"it ends with status {status}, not {done.returncode}: {done.stdout}{done.stderr}",
               done.returncode == status)
        return json.loads(done.stdout)["findings"]

    @staticmethod
    def _has(findings, check, severity, seen):
        found = [one for one in findings
                 if (one["check"], one["severity"]) == (check, severity) and seen in one["seen"]]
        expect(f"{severity} of {check}, '{seen}': {findings}", found)
        expect(f"it says what to do: {found}", severity == "fine" or found[0]["fix"])
        return found[0]

    @contextlib.contextmanager
    def _serve(self, scheme):
        with tempfile.TemporaryDirectory(dir="/tmp") as directory, Skiffd(
                self._skiffd, scheme, self._address, directory) as target:
            yield target.portal

    def _device(self):
        findings = self._doctor(FINE)
        self._has(findings, "rdma-ports", "fine", "rxe0 port 1 on eth0: ACTIVE")
        self._has(findings, "gids", "fine", f"RoCE v2 {self._address} at index ")
        self._has(findings, "flow-control", "note", "the driver of eth0 tells nothing of flow control")
        self._has(findings, "locked-memory", "fine", "unlimited")

    def _over_rdma(self):
        # Everybody may send echo requests.
        output_of("sysctl", "--write", "net.ipv4.ping_group_range=0 2147483647")
        with self._serve("verbs") as portal:
            for url in (portal, f"iser://{portal}"):
                findings = self._doctor(FINE, url)
                self._has(findings, "path-mtu", "fine", f"packets of 9000 bytes reach {self._address}")
                self._has(findings, "session", "fine", "iSER over verbs on rxe0")

    def _over_tcp(self):
        with self._serve("tcp") as portal:
            findings = self._doctor(WARNINGS, f"auto://{portal}")
            self._has(findings, "session", "fine", "iSCSI over tcp")
            self._has(findings, "rdma", "warning", "TCP instead of RDMA")
            self._has(self._doctor(FINE, f"iscsi://{portal}"), "rdma", "note", "RDMA was not tried")
            findings = self._doctor(NO_SESSION, f"iser://{portal}")
            self._has(findings, "session", "error", "cannot connect")

    def _nobody_listens(self):
        findings = self._doctor(NO_SESSION, f"{self._address}:3261")
        self._has(findings, "port", "error", "Connection refused")
        self._has(findings, "session", "error", "cannot connect")

    def _no_link(self):
        output_of("ip", "link", "set", "eth0", "down")
        found = self._has(self._doctor(WARNINGS), "rdma-ports", "warning", "rxe0 port 1 on eth0: DOWN")
        # What it says, up to what is not for a shell.
        output_of(*found["fix"].split(";")[0].split())
        wait_for("the port is active again", lambda: "ACTIVE" in pathlib.Path(
            "/sys/class/infiniband/rxe0/ports/1/state").read_text(encoding="ascii"))
        self._device()

    def _no_device(self):
        self._has(self._doctor(FINE), "rdma-devices", "note", "no RDMA device")
        with self._serve("tcp") as portal:
            self._has(self._doctor(WARNINGS, portal), "rdma-devices", "warning", "no RDMA device")

    def run(self, collected, device):
        cases = {"a device": self._device, "over RDMA": self._over_rdma} if device == "roce" else {
            "no device": self._no_device}
        cases |= {"over TCP": self._over_tcp, "nobody listens": self._nobody_listens}
        if device == "roce":
            cases["no link"] = self._no_link
        for name, function in cases.items():
            collected.run(name, function)


def main():
    skiff, skiffd, device = *map(os.path.abspath, sys.argv[1:3]), sys.argv[3]
    # What the guest starts with is not the matter.
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    collected = Cases(f"doctor_{device}")
    address = os.environ["SKIFF_VM_ADDRESS"] if device == "roce" else "127.0.0.1"
    DoctorTest(skiff, skiffd, address).run(collected, device)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
