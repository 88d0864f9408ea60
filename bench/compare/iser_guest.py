"""Targets and loads of bench/compare/iser in the virtual machine: iSER on Soft-RoCE, each end a program of its own."""

import contextlib
import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Callable

from runner import ROOT, Failure, Stopped, peers

sys.path[:0] = [str(ROOT / "testing" / directory) for directory in ("iser", "linux")]
# pylint: disable=wrong-import-position
import kernel
from iser_peers import IserTgtd
from lio import Lio

LUN_BYTES = 64 << 20
BLOCK = 512
INITIATOR_NAME = "iqn.2026-11.org.example.skiff:load"
LIO_NAME = "iqn.2026-11.org.example.skiff:lio"
LIO_PORT = 3262  # tgt cannot do without the standard's.
WARM_UP = 0.2
# Packets that a login never takes.
PACKETS_OF_A_LOAD = 400
KERNEL_THREADS = re.compile(r"iscsi|scsi_eh|iser")
END_SECONDS = 60


class VerbsSkiffd(Stopped, peers.Skiffd):
    """Skiff's target at the address of the guest's device."""

    scheme = "verbs"
    host = os.environ.get("SKIFF_VM_ADDRESS", "")

    def __init__(self, program, directory, core=None, flags=(), suffix=""):
        super().__init__(program, [f"ram:{LUN_BYTES},thin=off"], directory, core, flags)
        # Linux's initiator tells the disks of two targets apart by their names only.
        self.name += suffix


@dataclasses.dataclass
class Subject:
    """A target with a LUN in memory, and the disk that Linux's initiator makes of that."""

    portal: str
    name: str
    lun: int
    running: Callable = None  # In this, a target runs that is to be stopped at other times.
    disk: kernel.Disk = None

    @property
    def url(self):
        return f"iser://{self.portal}/{self.name}/{self.lun}"

    @contextlib.contextmanager
    def attached(self):
        """Logged in to by Linux's initiator; the LUN written once, so that reads meet memory and not its absence."""
        session = kernel.Session("iser", self.portal, self.name)
        session.discover()
        session.login()
        try:
            self.disk = session.disk(self.lun)
            if self.disk.size != LUN_BYTES:
                raise Failure(f"{self.url} has {self.disk.size} bytes, not {LUN_BYTES}")
            if "Iface Transport: iser" not in session.details():
                raise Failure(f"Linux's session with {self.url} is not over iSER: {session.details()}")
            # One command for each that fio asks for, in its order, whatever the target.
            self.disk.attribute("queue/scheduler", "none")
            self.disk.attribute("queue/nomerges", 2)
            block = os.urandom(1 << 20)
            kernel.run("dd", f"of={self.disk.device}", "bs=1M", "oflag=direct", "iflag=fullblock",
                       f"if={self._pattern(block)}")
            yield self
        finally:
            session.logout()

    @staticmethod
    def _pattern(block):
        path = pathlib.Path("/dev/shm/skiff-compare-pattern")
        with open(path, "wb") as file:
            for _ in range(LUN_BYTES // len(block)):
                file.write(block)
        return path


def started_skiffd(stack, machine, **options):
    target = stack.enter_context(VerbsSkiffd(machine.skiffd, machine.directory, **options))
    return Subject(target.portal, target.name, target.lun, target.running)


@functools.cache
def started_lio():
    """Stays until the guest ends."""
    target = Lio(LIO_NAME, VerbsSkiffd.host, True, LUN_BYTES, port=LIO_PORT)
    return Subject(target.portal, target.name, 0)


def started_tgtd(stack, machine):
    """tgt with a file in memory. Its asynchronous backend wants O_DIRECT, which this kernel's tmpfs has not."""
    image = pathlib.Path("/dev/shm/skiff-compare-lun")
    with open(image, "wb") as file:
        file.truncate(LUN_BYTES)
    target = stack.enter_context(
        IserTgtd(image, machine.directory, [kernel.INITIATOR_NAME, INITIATOR_NAME]))
    return Subject(target.portal, target.name, target.lun)


def _packets():
    return int(pathlib.Path("/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts").read_text(encoding="ascii"))


def _kernel_threads():
    """Those of Linux's initiator."""
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if not (directory / "cmdline").read_bytes() and KERNEL_THREADS.search(
                    (directory / "comm").read_text(encoding="utf-8")):
                yield int(directory.name)


def _busy_seconds():
    """Processor time of the guest, of whatever."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _seconds_of(threads):
    """Processor time of each of the threads that are there."""
    seconds = {}
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            seconds[thread] = peers.cpu_seconds(thread)
    return seconds


@dataclasses.dataclass
class Outcome:
    """What a load reached: I/Os a second, processor seconds a second that are its own, and those of the guest."""

    iops: float
    cpu: float = math.nan
    busy: float = math.nan


class Loads:
    """The initiators, one at a time."""

    def __init__(self, skiff, seconds, watched=False):
        self._skiff = skiff
        self._seconds = seconds
        self._watched = watched  # Processor time is measured, too, which takes longer.

    @property
    def _runtime(self):
        """Longer than what is watched by the time to begin and to end."""
        return self._seconds + (3 * WARM_UP if self._watched else 0)

    def _run(self, command, threads=()):
        """The output of a load, and the processor seconds of a second that it was at work: its own, and the guest's.

        The load's own are those of its process and of `threads` of the kernel. Neither its start nor its end is part of
        that second.
        """
        def spent():
            return time.monotonic(), _seconds_of(threads), peers.cpu_seconds(process.pid), _busy_seconds()

        words = " ".join(map(str, command))
        packets = _packets()
        before = after = None
        process = peers.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                              stdin=subprocess.DEVNULL)
        try:
            if self._watched:
                kernel.wait_for(f"the work of {words}",
                                lambda: _packets() - packets > PACKETS_OF_A_LOAD or process.poll() is not None)
                time.sleep(WARM_UP)
                if process.poll() is None:
                    before = spent()
                    time.sleep(self._seconds)
                if process.poll() is None:
                    after = spent()
            output, errors = process.communicate(timeout=self._seconds + END_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"{words}: no end") from None
        finally:
            peers.stop(process)
        if process.returncode != 0 or self._watched and after is None:
            raise Failure(f"{words}: ended too early, with status {process.returncode}\n{errors}{output}")
        if not self._watched:
            return output, math.nan, math.nan
        # Some of them are workers of the kernel's, which end when it likes.
        for thread in before[1].keys() - after[1].keys():
            print(f"    {words}: thread {thread} ended while measured; its time is not counted", file=sys.stderr)
        of_threads = sum(spent - before[1].get(thread, 0) for thread, spent in after[1].items())
        elapsed, cpu, busy = (after[i] - before[i] for i in (0, 2, 3))
        return output, (cpu + of_threads) / elapsed, busy / elapsed

    def fill(self, subject):
        """Writes all of a LUN once, so that reads meet memory and not its absence."""
        kernel.run(self._skiff, "perf", f"{subject.url}?transport=verbs", "--rw=write", "--bs=1m")

    def skiff(self, subject, work, flags=(), core=None):
        command = [self._skiff, "perf", f"{subject.url}?transport=verbs", f"--rw={work.rw}", f"--bs={work.kib}k",
                   f"--iodepth={work.depth}", f"--runtime={self._runtime:.1f}s", "--json", *flags]
        if core is not None:
            command = ["taskset", "-c", core, *command]
        output, *spent = self._run(command)
        report = json.loads(output)
        if report["data_model"] != "iSER":
            raise Failure(f"skiff perf did not run over iSER: {output}")
        return Outcome(report[work.direction]["iops"], *spent)

    def linux(self, subject, work):
        """Linux's ib_iser: fio on its disk, past the page cache."""
        command = ["fio", "--name=load", f"--filename={subject.disk.device}", "--ioengine=libaio", "--direct=1",
                   "--thread", "--norandommap", f"--rw={work.rw}", f"--bs={work.kib}k", f"--iodepth={work.depth}",
                   "--time_based", f"--ramp_time={round(1000 * WARM_UP)}ms",
                   f"--runtime={round(1000 * self._runtime)}ms", "--output-format=json"]
        output, *spent = self._run(command, list(_kernel_threads()))
        job = json.loads(output[output.index("{"):])["jobs"][0]
        if job["error"]:
            raise Failure(f"fio: {output}")
        return Outcome(job[work.direction]["iops"], *spent)

    def libiscsi(self, subject, work):
        """libiscsi's iscsi-perf, which only reads, and counts in whole seconds."""
        command = ["iscsi-perf", "-i", INITIATOR_NAME, "-m", work.depth, "-b", 1024 * work.kib // BLOCK,
                   "-t", math.ceil(self._runtime), *(["-r"] if work.rw == "randread" else []), subject.url]
        output, *spent = self._run(command)
        found = re.findall(r"iops average (\d+)", output)
        if not found or int(found[-1]) == 0 or "failed" in output:
            raise Failure(f"iscsi-perf: no result in\n{output}")
        return Outcome(int(found[-1]), *spent)
