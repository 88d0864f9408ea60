#!/usr/bin/env python3
"""Linux's iSCSI initiator with Skiff's target, in a guest: over iSER on RDMA devices, and over TCP.

Usage: initiator_test.py SKIFFD TRANSPORT    where TRANSPORT is roce, iwarp or tcp
"""

import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from chap import ChapSkiffd, InitiatorCases  # pylint: disable=wrong-import-position
from kernel import (  # pylint: disable=wrong-import-position
    DEBUG_ERROR_HANDLING, Failure, KernelLog, Session, SlowDevice, data_keys, expect, iscsid, mounted, run, wait_for,
)

TARGET = "iqn.2026-11.org.example.skiff:disks"
# Scheme of skiffd's portal, address (of the guest's only device), open-iscsi's interface, and the KiB of the kernel's
# largest command: ib_iser registers 512 pages of rxe at most, 256 of siw.
TRANSPORTS = {
    "roce": ("verbs", "192.168.77.1", "iser", 2044),
    "iwarp": ("verbs", "192.168.77.1", "iser", 1020),
    "tcp": ("tcp", "127.0.0.1", "default", 4096),
}
RAM_BYTES = 256 << 20
FILE_BYTES = 128 << 20
SLOW_MIB = 32
MIB = 1 << 20
RESETS = 3
# A load ends when it has met what it is to meet, or fails after so long.
LOAD_SECONDS = 60
# Before it is told to end, so many do: more writes are among them than the 64 that fio may leave unchecked.
COMMANDS = 400
# fio's exit status where a signal ended it and all was well; one more for each job with an error.
FIO_INTERRUPTED = 128
# What reaches a file system, or what it makes of that.
FILE_SYSTEM_ERRORS = r"I/O error|EXT4-fs (error|warning)|XFS .*([Ee]rror|[Ss]hut)|Aborting journal|read-only|lost async"


class Skiffd(peers.Skiffd):
    """LUN 0 is in memory, LUN 1 in a file, which is there again after a restart, LUN 2 on a device that may be slow."""

    name = TARGET
    port = 3260

    def __init__(self, program, scheme, address, directory, slow):
        super().__init__(program, (f"ram:{RAM_BYTES}", f"file:{directory}/disk.img,size={FILE_BYTES}",
                                   f"file:{slow.device},direct"), directory)
        self.scheme = scheme
        self.host = address
        self.unsolicited_data_out = False  # Over iSER.
        self._slow = slow

    def _description(self):
        if not self.unsolicited_data_out:
            return super()._description()
        config = self.directory / "skiffd.conf"
        config.write_text(f"""\
portal: "{self.scheme}://{self.portal}"
iser {{ unsolicited_data_out: true }}
target {{
  name: "{self.name}"
  access: OPEN
  lun {{ ram {{ size: "{RAM_BYTES}" }} }}
  lun {{ file {{ path: "{self.directory}/disk.img" size: "{FILE_BYTES}" }} }}
  lun {{ file {{ path: "{self._slow.device}" direct: true }} }}
}}
""", encoding="utf-8")
        return ["--config", config]

    def end(self):
        """The way it is meant to end."""
        self.process.terminate()
        status = self.process.wait(timeout=30)
        expect(f"skiffd ends with status 0, not {status}: {self.log()}", status == 0)


class FileWriter:
    """Writes files, each to the medium before the next, over and over until it is to stop."""

    FILES = 16

    def __init__(self, directory, stop):
        self._directory = directory
        self._stop = stop
        self._contents = {}
        self.written = 0

    def run(self):
        while not self._stop.is_set():
            name = f"file{self.written % self.FILES}"
            data = os.urandom(random.randrange(256 << 10))
            with open(self._directory / name, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._contents[name] = data
            self.written += 1

    def check(self, directory):
        for name, data in self._contents.items():
            expect(f"{directory / name} is as it was", (directory / name).read_bytes() == data)


class InitiatorTest:
    """The cases, in their order. The session is there from login() on."""

    def __init__(self, target, session, iser, slow):
        self._target = target
        self._session = session
        self.iser = iser
        self._slow = slow

    @property
    def ram(self):
        return self._session.disk(0)

    @property
    def file(self):
        return self._session.disk(1)

    def discovery(self):
        self._session.discover()

    def login(self):
        self._session.login()
        expect(f"the size of LUN 0: {self.ram.size}", self.ram.size == RAM_BYTES)
        expect(f"the size of LUN 1: {self.file.size}", self.file.size == FILE_BYTES)

    def sg3_utils(self):
        device = self.ram.device
        expect("INQUIRY", "SKIFF" in run("sg_inq", device))
        for page in ("sv", "sn", "di", "bl", "bdc", "lbpv"):
            run("sg_vpd", f"--page={page}", device)
        expect("READ CAPACITY (16)", f"{RAM_BYTES // 512 - 1} (" in run("sg_readcap", "--16", device))
        run("sg_luns", device)
        run("sg_turs", device)
        run("sg_requests", device)
        run("sg_modes", "--all", device)
        run("sg_opcodes", device)
        run("sg_sync", device)
        run("sg_verify", "--lba=0", "--count=8", device)
        block = os.urandom(512)
        with tempfile.NamedTemporaryFile() as blocks:
            blocks.write(block)
            blocks.flush()
            run("sg_write_same", "--16", "--lba=64", "--num=64", f"--in={blocks.name}", "--xferlen=512", device)
            expect("WRITE SAME", self._read(device, 64 * 512, 64 * 512) == 64 * block)
            other = os.urandom(512)
            blocks.write(other)
            blocks.flush()
            run("sg_compare_and_write", "--lba=64", f"--in={blocks.name}", "--num=1", device)
            expect("COMPARE AND WRITE", self._read(device, 64 * 512, 1024) == other + block)
        # Without --force, it waits for 15 seconds and more, for people who think again.
        run("sg_unmap", "--force", "--lba=64", "--num=64", device)
        expect("UNMAP", self._read(device, 64 * 512, 64 * 512) == bytes(64 * 512))
        run("sg_get_lba_status", "--lba=64", device)

    @staticmethod
    def _read(device, offset, length):
        run("blockdev", "--flushbufs", device)
        with open(device, "rb") as disk:
            disk.seek(offset)
            return disk.read(length)

    def verified_sizes(self, disk, sizes, depth):
        # One small command at a time is what takes longest.
        size = "1M" if depth == 1 else "12M"
        getattr(self, disk).fio(f"--bsrange={sizes}", f"--iodepth={depth}", f"--size={size}", f"--io_size={size}",
                                seconds=180)

    def largest_commands(self, kib):
        disk = self.ram
        limit = int(disk.attribute("queue/max_hw_sectors_kb"))
        expect(f"the kernel sends commands of {kib} KiB; {limit} is its limit", limit >= kib)
        disk.attribute("queue/max_sectors_kb", kib)
        data = os.urandom(12 * MIB)
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            source = pathlib.Path(directory) / "data"
            source.write_bytes(data)
            run("dd", f"if={source}", f"of={disk.device}", "bs=4M", "oflag=direct")
            back = pathlib.Path(directory) / "back"
            run("dd", f"if={disk.device}", f"of={back}", "bs=4M", "count=3", "iflag=direct")
            expect("what was written is read", back.read_bytes() == data)

    def file_systems(self):
        """A partition table, ext4 and xfs: files written and found again, and nothing for fsck to do."""
        first, second = self._make_file_systems()
        for partition in (first, second):
            files = {f"file{i}": os.urandom(size) for i, size in enumerate((0, 1, 4096, 123457, 3 * MIB))}
            with mounted(partition, "/mnt/skiff") as directory:
                for name, data in files.items():
                    (directory / name).write_bytes(data)
            run("blockdev", "--flushbufs", partition)
            with mounted(partition, "/mnt/skiff") as directory:
                for name, data in files.items():
                    expect(f"{partition}: {name} is as it was", (directory / name).read_bytes() == data)
        self._check_file_systems(first, second)

    def _make_file_systems(self):
        """A partition with ext4 and one with xfs, on LUN 1."""
        device = self.file.device
        run("sfdisk", "--quiet", device, text="label: gpt\n,48M\n,\n")
        first, second = f"{device}1", f"{device}2"
        wait_for("the partitions", lambda: os.path.exists(first) and os.path.exists(second))
        run("mkfs.ext4", "-q", first)
        # Its least size is for disks in service.
        run("mkfs.xfs", "-q", "--unsupported", "-f", second)
        return first, second

    @staticmethod
    def _check_file_systems(ext4, xfs):
        run("fsck.ext4", "-f", "-n", ext4)
        run("xfs_repair", "-n", xfs)

    def serve(self, unsolicited_data_out):
        """By a skiffd that is started anew."""
        self._session.logout()
        self._target.end()
        self._target.unsolicited_data_out = unsolicited_data_out
        self._target.start()
        self._session.login()

    def data_keys(self, immediate, initial_r2t):
        """With and without immediate and unsolicited data; sizes on both sides of FirstBurstLength."""
        self._session.logout()
        self._session.set("node.session.iscsi.ImmediateData", immediate)
        self._session.set("node.session.iscsi.InitialR2T", initial_r2t)
        self._session.set("node.session.iscsi.FirstBurstLength", "65536")
        self._session.login()
        details = self._session.details()
        sessions = self._target.sessions(last=r"ImmediateData=.*\n")
        unsolicited = self._target.unsolicited_data_out or not self.iser
        for key, value in data_keys(immediate, initial_r2t, unsolicited).items():
            expect(f"{key} is {value} for Linux: {details}", re.search(rf"\b{key}: {value}\b", details))
            expect(f"{key} is {value} for skiffd: {sessions}", re.search(rf"\b{key}={value}\b", sessions))
        self.ram.fio("--bssplit=512/10:4k/30:8k/20:64k/20:68k/20", "--iodepth=8", "--size=8M", "--io_size=8M")

    def resets_under_load(self):
        """Commands that a reset aborts are repeated by the kernel: every block is what was written last."""
        disk = self.ram
        # Writes that are longer than FirstBurstLength wait for R2Ts, so that there is something to abort.
        process = subprocess.Popen(
            disk.fio_command("--bs=256k", "--iodepth=32", "--size=64M", "--time_based", f"--runtime={LOAD_SECONDS}"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        met = 0
        while met < RESETS and process.poll() is None:
            time.sleep(0.2)
            before = disk.errors
            run("sg_reset", "--no-escalate", "--device", disk.device)
            # Two may be for the unit attentions that tell of this reset and of the one before.
            met += disk.errors > before + 2
        # Those that the last reset aborted are repeated, and checked.
        self._wait_for_commands(disk, process)
        self._ends_well(process, early=True)
        expect(f"{RESETS} resets met commands in flight, not {met}", met == RESETS)

    def restart_under_load(self):
        """The target killed and started again: no error reaches the program."""
        disk = self.file
        process = subprocess.Popen(
            disk.fio_command("--bs=16k", "--iodepth=16", "--size=8M", "--time_based", f"--runtime={LOAD_SECONDS}"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._wait_for_commands(disk, process)
        self._target.kill()
        time.sleep(0.5)
        self._target.start()
        self._wait_for_commands(disk, process)
        self._ends_well(process, early=True)

    def restart_under_file_systems(self):
        """The target killed and started again: no error reaches a file system, and no file is lost."""
        ext4, xfs = self._make_file_systems()
        log = KernelLog()
        stop = threading.Event()
        with contextlib.ExitStack() as stack:
            writers = [FileWriter(stack.enter_context(mounted(partition, f"/mnt/{os.path.basename(partition)}")), stop)
                       for partition in (ext4, xfs)]
            with concurrent.futures.ThreadPoolExecutor() as threads:
                futures = [threads.submit(writer.run) for writer in writers]
                try:
                    self._write_while_it_restarts(writers, futures)
                finally:
                    stop.set()
            for future in futures:
                future.result()
        for partition, writer in zip((ext4, xfs), writers):
            run("blockdev", "--flushbufs", partition)
            with mounted(partition, "/mnt/skiff") as directory:
                writer.check(directory)
        self._check_file_systems(ext4, xfs)
        errors = log.matching(FILE_SYSTEM_ERRORS)
        expect(f"the kernel tells of no error: {errors}", not errors)
        expect(f"it lost the connection: {log.lines()}", log.matching("detected conn error"))

    def _write_while_it_restarts(self, writers, futures):
        def wait_for_files(more):
            counts = [writer.written + more for writer in writers]
            wait_for("files are written", lambda: any(future.done() for future in futures) or all(
                writer.written >= count for writer, count in zip(writers, counts)), seconds=100)
        wait_for_files(8)
        self._target.kill()
        time.sleep(0.5)
        self._target.start()
        wait_for_files(FileWriter.FILES)

    def aborts(self):
        """Commands that take too long are aborted, one by one, and repeated: every block is what was written last."""
        self._session.logout()
        # Otherwise the kernel pings, and waits for as long as that is answered.
        for name in ("interval", "timeout"):
            self._session.set(f"node.conn[0].timeo.noop_out_{name}", 0)
        self._session.login()
        disk = self._session.disk(2)
        disk.attribute("device/timeout", 1)
        pathlib.Path(DEBUG_ERROR_HANDLING).write_text("1", encoding="ascii")
        log = KernelLog()
        for _ in range(2):
            before, _ = self._session.task_management()
            with self._slow.held():
                process = subprocess.Popen(disk.fio_command("--bs=16k", "--iodepth=8", "--size=4M"),
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                           text=True)
                wait_for("an abort", lambda before=before: self._session.task_management()[0] > before)
            self._ends_well(process)
        sent, answered = self._session.task_management()
        pathlib.Path(DEBUG_ERROR_HANDLING).write_text("0", encoding="ascii")
        said = log.lines()
        expect(f"{sent} functions were sent, and {answered} answered", sent >= 2 and answered == sent)
        expect(f"aborts succeeded: {said}", len(log.matching("abort success")) >= 2)
        expect(f"aborts were enough: {said}", not log.matching("LU Reset|detected conn error|I/O error"))
        disk.fio("--bs=16k", "--iodepth=8", "--size=4M")

    @staticmethod
    def _wait_for_commands(disk, process):
        enough = disk.ended + COMMANDS
        wait_for("commands end", lambda: disk.ended >= enough or process.poll() is not None)

    @staticmethod
    def _ends_well(process, early=False):
        """`early`: told to end by now, when it has met what it was to meet."""
        if early and process.poll() is None:
            process.send_signal(signal.SIGINT)
            expected = FIO_INTERRUPTED
        else:
            expected = 0
        try:
            output, _ = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure("fio hangs") from None
        expect(f"fio ends with status {expected}, not {process.returncode}: {output}", process.returncode == expected)
        expect(f"fio did not end by itself: {output}", not early or expected == FIO_INTERRUPTED)

    def logout(self):
        self._session.logout()
        wait_for(f"the target hears of it: {self._target.log()}", lambda: "logged out" in self._target.log())
        self._target.end()


def main():
    program, transport = os.path.abspath(sys.argv[1]), sys.argv[2]
    scheme, address, interface, largest = TRANSPORTS[transport]
    collected = Cases(f"linux_initiator_{transport}")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp"))
        stack.enter_context(iscsid())
        slow = SlowDevice(SLOW_MIB)
        target = stack.enter_context(Skiffd(program, scheme, address, directory, slow))
        test = InitiatorTest(target, Session(interface, target.portal, TARGET), interface == "iser", slow)
        collected.run("discovery", test.discovery)
        collected.run("login", test.login)
        collected.run("sg3_utils", test.sg3_utils)
        for disk, (sizes, depth) in itertools.product(("ram", "file"), (("512-4k", 1), ("4k-4k", 32), ("512-512k", 16))):
            collected.run(f"verified I/O: {disk}, {sizes}, depth {depth}", test.verified_sizes, disk, sizes, depth)
        collected.run(f"commands of {largest} KiB", test.largest_commands, largest)
        collected.run("partition table, ext4 and xfs", test.file_systems)
        if test.iser:
            collected.run("InitialR2T=No is declined", test.data_keys, "Yes", "No")
            collected.run("skiffd takes unsolicited Data-Out PDUs", test.serve, True)
        for immediate, initial_r2t in itertools.product(("Yes", "No"), repeat=2):
            collected.run(f"ImmediateData={immediate}, InitialR2T={initial_r2t}", test.data_keys, immediate, initial_r2t)
        if test.iser:
            collected.run("skiffd takes none", test.serve, False)
        collected.run("resets under load", test.resets_under_load)
        collected.run("target killed and restarted under load", test.restart_under_load)
        collected.run("target killed and restarted under file systems", test.restart_under_file_systems)
        collected.run("aborts", test.aborts)
        collected.run("logout", test.logout)
        authenticating = pathlib.Path(directory) / "chap"
        authenticating.mkdir()
        with ChapSkiffd(program, scheme, address, authenticating, f"{TARGET}.chap") as other:
            InitiatorCases(other, interface).run(collected)
        status = collected.finish()
        if status != 0:
            print(f"-- the end of what skiffd logged\n{target.log()[-6000:]}")
            print(f"-- the kernel\n{run('dmesg')[-4000:]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
