#!/usr/bin/env python3
"""Debian's libiscsi over iSER with Skiff's target, in a guest.

Usage: libiscsi_iser_test.py SKIFFD TRANSPORT        where TRANSPORT is roce or iwarp
       libiscsi_iser_test.py --verify URL BLOCK      writes and reads with the library, in a process of its own

Without iscsi-test-cu, which logs in twice: libiscsi 1.19 over iSER does not survive that (docs/interoperability.md).
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "linux", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from kernel import Failure, expect, run  # pylint: disable=wrong-import-position

INITIATOR_NAME = b"iqn.2026-11.org.example.skiff:libiscsi"
BLOCK = 512
# Up to what libiscsi has buffers for.
LENGTHS = (512, 4096, 8192, 8704, 65536, 131072, 262144)
ROUNDS = 3
BLOCKS_A_SESSION = ROUNDS * sum(LENGTHS) // BLOCK
SESSIONS = 4
RAM_BYTES = 64 << 20
SECONDS = 60
# libiscsi 1.19 takes ImmediateData=Yes, says in a command that data come with it, and does not send them
# (iser_send_command()).
CONFIGURATION = """
portal: "verbs://{portal}"
negotiation {{ immediate_data: false }}
target {{
  name: "{name}"
  lun {{ ram {{ size: "{size}" }} }}
}}
"""


class IserSkiffd(peers.Skiffd):
    """Skiff's target at the address of the guest's device."""

    scheme = "verbs"
    host = os.environ.get("SKIFF_VM_ADDRESS", "")
    port = 3260

    def __init__(self, program, directory):
        super().__init__(program, (), directory)

    def url(self, lun=None):
        return super().url(lun).replace("iscsi://", "iser://")

    def _description(self):
        path = self.directory / "skiffd.conf"
        path.write_text(CONFIGURATION.format(portal=self.portal, name=self.name, size=RAM_BYTES), encoding="ascii")
        return ["--config", path]


class Sense(ctypes.Structure):
    """struct scsi_sense."""

    _fields_ = [("error_type", ctypes.c_ubyte), ("key", ctypes.c_int), ("ascq", ctypes.c_int), ("rest", ctypes.c_uint)]


class Task(ctypes.Structure):
    """The beginning of struct scsi_task."""

    _fields_ = [
        ("status", ctypes.c_int), ("cdb_size", ctypes.c_int), ("xfer_dir", ctypes.c_int), ("expxferlen", ctypes.c_int),
        ("cdb", ctypes.c_ubyte * 16), ("residual_status", ctypes.c_int), ("residual", ctypes.c_size_t),
        ("sense", Sense), ("datain_size", ctypes.c_int), ("datain", ctypes.POINTER(ctypes.c_ubyte)),
    ]


class Library:
    """One login of libiscsi."""

    def __init__(self, url):
        self._library = ctypes.CDLL("libiscsi.so.7")
        for name in ("iscsi_create_context", "iscsi_parse_full_url"):
            getattr(self._library, name).restype = ctypes.c_void_p
        for name in ("iscsi_read16_sync", "iscsi_write16_sync"):
            getattr(self._library, name).restype = ctypes.POINTER(Task)
        self._library.iscsi_get_error.restype = ctypes.c_char_p
        self._context = ctypes.c_void_p(self._library.iscsi_create_context(INITIATOR_NAME))
        expect("a URL", self._library.iscsi_parse_full_url(self._context, url.encode()))
        portal, target, lun = re.fullmatch(r"iser://([^/]+)/([^/]+)/(\d+)", url).groups()
        self._lun = int(lun)
        self._library.iscsi_set_targetname(self._context, target.encode())
        self._library.iscsi_set_session_type(self._context, 2)  # ISCSI_SESSION_NORMAL
        if self._library.iscsi_full_connect_sync(self._context, portal.encode(), self._lun) != 0:
            raise self._failure("login")

    def _failure(self, what):
        return Failure(f"{what}: {self._library.iscsi_get_error(self._context)}")

    def _done(self, what, task):
        if not task or task.contents.status != 0:
            raise self._failure(what)
        return task.contents

    def write(self, block, data):
        self._done(f"write of {len(data)}", self._library.iscsi_write16_sync(
            self._context, self._lun, ctypes.c_uint64(block), data, len(data), BLOCK, 0, 0, 0, 0, 0))

    def read(self, block, length):
        task = self._done(f"read of {length}", self._library.iscsi_read16_sync(
            self._context, self._lun, ctypes.c_uint64(block), length, BLOCK, 0, 0, 0, 0, 0))
        return bytes(task.datain[:task.datain_size])

    def logout(self):
        if self._library.iscsi_logout_sync(self._context) != 0:
            raise self._failure("logout")


def verify(url, block):
    library = Library(url)
    written = []
    for _ in range(ROUNDS):
        for length in LENGTHS:
            data = os.urandom(length)
            library.write(block, data)
            written.append((block, data))
            block += length // BLOCK
    for start, data in written:
        expect(f"{len(data)} bytes at block {start} are those written", library.read(start, len(data)) == data)
    library.logout()
    return 0


class LibiscsiTest:
    """The cases."""

    def __init__(self, target):
        self._target = target

    def discovery(self):
        """iscsi-ls knows one kind of URL only; it dies after its work, with its output not yet written to a pipe."""
        output = run("stdbuf", "-oL", "iscsi-ls", f"iscsi://{self._target.portal}?iser", check=False)
        line = f"Target:{self._target.name} Portal:{self._target.portal},1"
        expect(f"iscsi-ls prints {line}: {output}", line in output)
        expect("it was over iSER", "iscsi-ls discovers targets" in self._target.log())

    @staticmethod
    def tool(name, arguments, pattern):
        output = run(name, *arguments)
        expect(f"{name} says {pattern}: {output}", re.search(pattern, output))

    def perf(self, depth, blocks, *flags):
        output = run("iscsi-perf", "-m", depth, "-b", blocks, "-t", 3, *flags, self._target.url())
        expect(f"iscsi-perf reads without an error: {output}",
               "finished" in output and re.search(r"iops average [1-9]", output) and "failed" not in output)

    def verified(self, sessions):
        """So many sessions at once, each with blocks of its own."""
        # The library takes its memory for zero when it is not (iscsi_init_iser_transport()); with this it is.
        environment = {**os.environ, "MALLOC_PERTURB_": "255"}
        processes = [
            subprocess.Popen([sys.executable, __file__, "--verify", self._target.url(), str(number * BLOCKS_A_SESSION)],
                             env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
            for number in range(sessions)]
        try:
            for process in processes:
                output, _ = process.communicate(timeout=SECONDS)
                expect(f"status 0, not {process.returncode}: {output}", process.returncode == 0)
        finally:
            for process in processes:
                process.kill()

    def goes_on(self):
        expect(f"skiffd runs: {self._target.process.poll()}", self._target.process.poll() is None)
        log = self._target.log()
        expect(f"no connection was closed for what it sent: {log}", " closing: " not in log)


def run_all(target, collected):
    test = LibiscsiTest(target)
    url = target.url()
    collected.run("discovery", test.discovery)
    collected.run("inquiry", test.tool, "iscsi-inq", [url], r"Vendor:SKIFF")
    collected.run("block limits", test.tool, "iscsi-inq", ["-e", "1", "-c", "176", url], r"maximum transfer length:\d+")
    collected.run("capacity", test.tool, "iscsi-readcapacity16", [url], rf"Total size:{RAM_BYTES}\b")
    collected.run("mode page", test.tool, "iscsi-swp", [url], r"SWP:0")
    for depth, blocks, flags in ((1, 1, ()), (32, 8, ("-r",)), (16, 128, ()), (4, 512, ("-r",))):
        collected.run(f"reads: {blocks} blocks, depth {depth}", test.perf, depth, blocks, *flags)
    for sessions in (1, SESSIONS):
        collected.run(f"verified writes and reads: {sessions} sessions", test.verified, sessions)
    collected.run("the target goes on", test.goes_on)


def main():
    if sys.argv[1] == "--verify":
        return verify(sys.argv[2], int(sys.argv[3]))
    program, transport = os.path.abspath(sys.argv[1]), sys.argv[2]
    collected = Cases(f"libiscsi_iser_{transport}")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, IserSkiffd(program, pathlib.Path(directory)) as target:
        run_all(target, collected)
        status = collected.finish()
        if status != 0:
            print(f"-- skiffd\n{target.log()[-6000:]}\n-- the kernel\n{run('dmesg')[-4000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
