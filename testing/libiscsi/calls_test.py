#!/usr/bin/env python3
"""Programs that call libiscsi do the same with Skiff's libiscsi.so.7 as with Debian's.

Usage: calls_test.py SKIFFD FACE LIBSKIFF
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
import cases  # pylint: disable=wrong-import-position
import face  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position
from face import LIBISCSI, SKIFF, expect  # pylint: disable=wrong-import-position

DEBIANS = "libiscsi.so.7"
# libiscsi's own insides, which iscsi-test-cu replaces: there is nothing of the kind in Skiff.
NOT_EXPORTED = {"iscsi_queue_pdu"}
VPD_PAGES = (0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2)


def exported(path):
    lines = subprocess.run(["nm", "-D", "--defined-only", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[-1] for line in lines.splitlines() if line.split()[1] == "T"} - {"_init", "_fini"}


def check_names(libraries):
    # It is not where users' programs are.
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    debians = subprocess.run(["ldconfig", "-p"], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    path = re.search(rf"{re.escape(DEBIANS)} .*=> (\S+)", debians)[1]
    expect("exported functions", exported(libraries.folder / "libiscsi.so.7"), exported(path) - NOT_EXPORTED)


def check_calls(libraries, directory, url):
    program = pathlib.Path(directory, "calls")
    face.compile_c(program, HERE / "calls.c")
    expect("calls", libraries.run(SKIFF, program, url, "both"), libraries.run(LIBISCSI, program, url, "both"))
    expect("calls", libraries.run(SKIFF, program, url, SKIFF).splitlines()[-1], "calls: done")


def check_trouble(libraries, directory, target):
    program = pathlib.Path(directory, "trouble")
    face.compile_c(program, HERE / "trouble.c")
    output = libraries.run(SKIFF, program, target.url(), face.Once(target.port).portal)
    expect("trouble", output.splitlines()[-1], "trouble: done")


def check_same(libraries, *command):
    expect(" ".join(command), libraries.run(SKIFF, *command), libraries.run(LIBISCSI, *command))


def check_write_protection(libraries, url):
    for value, shown in (("on", 1), ("off", 0)):
        libraries.run(SKIFF, "iscsi-swp", "--swp", value, url)
        for library in (SKIFF, LIBISCSI):
            expect(f"iscsi-swp with {library}", libraries.run(library, "iscsi-swp", url), f"SWP:{shown}\n")


def check_refused(libraries, url):
    """The same words, and the same exit status."""
    got, wanted = (libraries.run(library, "iscsi-inq", url, status=10) for library in (SKIFF, LIBISCSI))
    expect("no such LUN", got, wanted)


def check_perf(libraries, url):
    output = libraries.run(SKIFF, "iscsi-perf", "-m", "16", "-b", "8", "-t", "1", url)
    expect("iscsi-perf", bool(re.search(r"iops average \d{3,}", output)), True)


class Task(ctypes.Structure):
    """The beginning of a scsi_task."""
    _fields_ = [("status", ctypes.c_int), ("cdb_size", ctypes.c_int), ("xfer_dir", ctypes.c_int),
                ("expxferlen", ctypes.c_int), ("cdb", ctypes.c_ubyte * 16)]

    def facts(self):
        # Without data there is no direction that counts.
        return self.cdb_size, self.xfer_dir if self.expxferlen else 0, self.expxferlen, bytes(self.cdb[:self.cdb_size]).hex()


U64, U32, U16, U8, INT = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint16, ctypes.c_uint8, ctypes.c_int
TRANSFER = ([U32(0x12345678), U32(4096), INT(512)], [0, 1])
LONG_TRANSFER = ([U64(0x123456789abcdef0), U32(4096), INT(512)], [0, 1])
# Each CDB, with arguments that show in it. Numbers alone are int.
CDBS = {
    "testunitready": [()], "inquiry": [(0, 0, 255), (1, 0x83, 300)], "readcapacity10": [(0, 0), (5, 1)],
    "readcapacity16": [()], "modesense6": [(1, 2, 8, 3, U8(200)), (0, 0, 0x3f, 0, U8(4))],
    "modesense10": [(1, 0, 1, 10, 2, U8(99))], "modeselect6": [(1, 1, 24)], "modeselect10": [(1, 0, 28)],
    "get_lba_status": [(U64(77 << 33), U32(64))], "synchronizecache10": [(7, 9, 1, 0), (7, 9, 0, 1)],
    "synchronizecache16": [(U64(1 << 40), U32(1 << 20), 1, 1)], "prefetch10": [(U32(7), 9, 1, 5)],
    "prefetch16": [(U64(1 << 40), 9, 1, 5)], "unmap": [(1, 5, U16(24))],
    "read6": [(U32(0x12345), U32(4096), 512), (U32(1), U32(256 * 512), 512)],
    "writesame10": [(1, 1, 0, U32(9), 3, U16(8), U32(512))], "writesame16": [(1, 0, 1, U64(9 << 40), 3, U32(8), U32(512))],
    "readdefectdata10": [(1, 0, 5, U16(100))], "readdefectdata12": [(0, 1, 3, U32(9), U32(100))],
    "sanitize": [(1, 1, 3, 0), (0, 1, 1, 8)], "startstopunit": [(1, 2, 3, 1, 0, 1), (0, 0, 0, 0, 1, 0)],
    "preventallow": [(1,), (3,)], "readtoc": [(1, 2, 3, U16(100))], "reserve6": [()], "release6": [()],
    "persistent_reserve_in": [(1, U16(100))], "report_supported_opcodes": [(1, 2, 0x9e, 0x12, U32(99)), (0, 0, 0, 0, U32(8))],
    "receive_copy_results": [(3, 7, 100)], "serviceactionin16": [(0x12, U32(32))],
    **{f"{name}{size}": [(lba, U32(4096), 512, 3, dpo, fua, nv, 17) for dpo, fua, nv in ((0, 1, 0), (1, 0, 1), (0, 0, 0))]
       for name in ("read", "write") for size, lba in ((10, U32(0x12345678)), (12, U32(0x12345678)), (16, U64(1 << 45 | 9)))},
    **{name: [(U64(1 << 45 | 9), U32(4096), 512, 3, 1, 0, 1, 17)] for name in ("orwrite", "compareandwrite")},
    **{f"writeverify{size}": [(lba, U32(4096), 512, 3, 1, check, 17) for check in (0, 1)]
       for size, lba in ((10, U32(77)), (12, U32(77)), (16, U64(1 << 45 | 9)))},
    **{f"verify{size}": [(lba, U32(4096), 3, 1, check, 512) for check in (0, 1)]
       for size, lba in ((10, U32(77)), (12, U32(77)), (16, U64(1 << 45 | 9)))},
    "writeatomic16": [(U64(1 << 45 | 9), U32(4096), 512, 3, 1, 1, 17)],
}


def check_cdbs(libraries):
    both = {SKIFF: ctypes.CDLL(str(libraries.folder / "libiscsi.so.7")), LIBISCSI: ctypes.CDLL(DEBIANS)}
    for name, calls in CDBS.items():
        for arguments in calls:
            facts = {}
            for library, loaded in both.items():
                function = getattr(loaded, f"scsi_cdb_{name}")
                function.restype = ctypes.POINTER(Task)
                facts[library] = function(*arguments).contents.facts()
            expect(f"{name}{arguments}", facts[SKIFF], facts[LIBISCSI])


def check_words(libraries):
    """libiscsi's words, where it has some."""
    both = {SKIFF: ctypes.CDLL(str(libraries.folder / "libiscsi.so.7")), LIBISCSI: ctypes.CDLL(DEBIANS)}
    for name in ("devtype", "devqualifier", "version", "inquiry_pagecode", "protocol_identifier", "codeset", "association",
                 "designator_type"):
        words = {}
        for library, loaded in both.items():
            function = getattr(loaded, f"scsi_{name}_to_str")
            function.restype = ctypes.c_char_p
            words[library] = [function(number) for number in range(256)]
        expect(name, words[SKIFF], words[LIBISCSI])


def main():
    skiffd, library, libskiff = sys.argv[1:]
    collected = cases.Cases("libiscsi_calls")
    with tempfile.TemporaryDirectory() as directory, peers.Skiffd(skiffd, face.LUNS, directory) as target:
        libraries = face.Libraries(directory, library, libskiff)
        url = target.url()
        collected.run("exported names", check_names, libraries)
        collected.run("CDBs", check_cdbs, libraries)
        collected.run("words", check_words, libraries)
        collected.run("calls", check_calls, libraries, directory, url)
        collected.run("trouble", check_trouble, libraries, directory, target)
        collected.run("iscsi-ls", check_same, libraries, "iscsi-ls", "-s", f"iscsi://{target.portal}")
        collected.run("iscsi-inq", check_same, libraries, "iscsi-inq", url)
        for page in VPD_PAGES:
            collected.run(f"iscsi-inq page 0x{page:02x}", check_same, libraries, "iscsi-inq", "-e", "1", "-c", str(page), url)
        collected.run("iscsi-readcapacity16", check_same, libraries, "iscsi-readcapacity16", url)
        collected.run("iscsi-swp", check_write_protection, libraries, url)
        collected.run("no such LUN", check_refused, libraries, target.url(lun=17))
        collected.run("iscsi-perf", check_perf, libraries, url)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
