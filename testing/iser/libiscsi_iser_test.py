#!/usr/bin/env python3
"""Debian's libiscsi over iSER with Skiff's target, in a guest.

Usage: libiscsi_iser_test.py SKIFFD SHIM TRANSPORT       where SHIM is libiscsi_shim.so, and TRANSPORT is roce or iwarp
       libiscsi_iser_test.py --verify URL BLOCK DEPTH    writes and reads with the library, in a process of its own

libiscsi_cu_test.py has its conformance suite.
"""

import ctypes
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / directory) for directory in ("interop", "linux", "vm"))]
sys.dont_write_bytecode = True
from cases import Cases  # pylint: disable=wrong-import-position
from iser_peers import IserSkiffd, libiscsi_environment  # pylint: disable=wrong-import-position
from kernel import Failure, expect, run  # pylint: disable=wrong-import-position

INITIATOR_NAME = b"iqn.2026-11.org.example.skiff:libiscsi"
BLOCK = 512
# Up to what libiscsi has buffers for.
LENGTHS = (512, 4096, 8192, 8704, 65536, 131072, 262144)
ROUNDS = 3
BLOCKS_A_SESSION = ROUNDS * sum(LENGTHS) // BLOCK
SESSIONS = 4
RAM_BYTES = 64 << 20
SECONDS = 120


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
        # Global: what the shim stands in for is looked for there.
        self._library = ctypes.CDLL("libiscsi.so.7", mode=ctypes.RTLD_GLOBAL)
        for name in ("iscsi_create_context", "iscsi_parse_full_url"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.iscsi_write16_task.restype = ctypes.c_void_p
        self._library.iscsi_read16_sync.restype = ctypes.POINTER(Task)
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

    def read(self, block, length):
        task = self._done(f"read of {length}", self._library.iscsi_read16_sync(
            self._context, self._lun, ctypes.c_uint64(block), length, BLOCK, 0, 0, 0, 0, 0))
        return bytes(task.datain[:task.datain_size])

    def write_all(self, extents, depth):
        """Writes (block, data) of all extents, so many at once."""
        waiting, statuses = list(extents), []

        def send():
            block, data = waiting.pop(0)
            task = self._library.iscsi_write16_task(self._context, self._lun, ctypes.c_uint64(block), data, len(data),
                                                    BLOCK, 0, 0, 0, 0, 0, completed, None)
            expect(f"a write of {len(data)} is sent", task)

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        def completed(_context, status, task, _private_data):
            statuses.append(status)
            self._library.scsi_free_scsi_task(ctypes.c_void_p(task))
            if waiting:
                send()

        for _ in range(min(depth, len(waiting))):
            send()
        poll = select.poll()
        poll.register(self._library.iscsi_get_fd(self._context), select.POLLIN)
        while len(statuses) < len(extents):
            expect(f"a write of {len(extents) - len(statuses)} is done", poll.poll(SECONDS * 1000))
            if self._library.iscsi_service(self._context, select.POLLIN) != 0:
                raise self._failure("writes")
        expect(f"every write has status 0: {statuses}", not any(statuses))

    def logout(self):
        if self._library.iscsi_logout_sync(self._context) != 0:
            raise self._failure("logout")


def verify(url, block, depth):
    library = Library(url)
    written = []
    for length in LENGTHS * ROUNDS:
        written.append((block, os.urandom(length)))
        block += length // BLOCK
    library.write_all(written, depth)
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
        output = run("iscsi-perf", "-m", depth, "-b", blocks, "-t", 1, *flags, self._target.url())
        expect(f"iscsi-perf reads without an error: {output}",
               "finished" in output and re.search(r"iops average [1-9]", output) and "failed" not in output)

    def verified(self, sessions, depth):
        """So many sessions at once, each with blocks of its own, and so many writes at once in each."""
        processes = [
            subprocess.Popen([sys.executable, __file__, "--verify", self._target.url(), str(number * BLOCKS_A_SESSION),
                              str(depth)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
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
    for sessions, depth in ((1, 1), (1, 16), (SESSIONS, 1), (SESSIONS, 4)):
        collected.run(f"writes at depth {depth}, verified: {sessions} sessions", test.verified, sessions, depth)
    collected.run("the target goes on", test.goes_on)


def main():
    if sys.argv[1] == "--verify":
        return verify(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    program, shim, transport = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    collected = Cases(f"libiscsi_iser_{transport}")
    luns = [f'ram {{ size: "{RAM_BYTES}" }}']
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, IserSkiffd(program, luns, directory) as target:
        # Not before skiffd is started, which is to have none of it.
        os.environ.update(libiscsi_environment(shim))
        run_all(target, collected)
        status = collected.finish()
        if status != 0:
            print(f"-- skiffd\n{target.log()[-6000:]}\n-- the kernel\n{run('dmesg')[-4000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
