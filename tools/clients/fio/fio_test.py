#!/usr/bin/env python3
"""fio's engine: built as tools/install builds it, and used by Debian's fio on skiffd's disks.

Usage: fio_test.py LIBSKIFF SKIFFD SKIFF [-- TEST...]
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path("tools/clients/fio")
sys.path[:0] = ["testing/interop", str(HERE)]
import fio_sources  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

HEADERS = pathlib.Path("tools/library/include")
DISK_BYTES = 32 << 20
SECONDS = 90
# A job whose target is gone ends this much later at most than it was told to.
PATIENCE = 20
VERIFY = ("--rw=randwrite", "--verify=crc32c", "--bs=4k")
TCP, ISER = "tcp", "iser"

library = skiffd = skiff = None


class Skiffd(peers.Skiffd):
    """Disks over one transport: a large one, a second one, one of 4096-byte blocks, one that is read-only."""

    def __init__(self, directory, kind, flags=()):
        super().__init__(skiffd, (f"ram:{DISK_BYTES}", f"ram:{DISK_BYTES}", f"ram:{DISK_BYTES},block_size=4096",
                                  f"ram:{DISK_BYTES},read_only"), directory, flags=flags)
        self.kind = kind
        self.scheme = "tcp" if kind == TCP else "libfabric"

    def _description(self):
        description = super()._description()
        if self.kind == ISER:
            description[1] += "?provider=tcp"
        return description

    def url(self, lun=None):
        url = super().url(lun)
        return url if self.kind == TCP else url.replace("iscsi:", "iser:") + "?transport=libfabric&provider=tcp"


def escaped(url):
    """As a part of filename=, where colons separate names."""
    return url.replace("\\", "\\\\").replace(":", "\\:")


class FioTest(unittest.TestCase):
    """One engine, and targets for each test."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = pathlib.Path(tempfile.mkdtemp(prefix="skiff-fio-"))
        cls.engine = cls.temporary / "lib/skiff/libskiff_fio.so"
        (cls.temporary / "lib").mkdir()
        shutil.copy(library, cls.temporary / "lib/libskiff.so.0")
        command = [HERE / "build", "--headers", HEADERS, "--library", cls.temporary / "lib/libskiff.so.0", "--out", cls.engine]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=fio_sources.LOCK_SECONDS)
        if done.returncode != 0 or done.stdout or done.stderr:
            raise AssertionError(f"build: status {done.returncode}\n{done.stdout}{done.stderr}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.temporary)

    def setUp(self):
        self.work = self.temporary / self.id().rpartition(".")[2]
        self.work.mkdir()

    @contextlib.contextmanager
    def target(self, kind=TCP, flags=()):
        with Skiffd(self.work, kind, flags) as target:
            yield target

    def fio(self, *arguments, engine=None):
        """(exit status, what it said)."""
        return peers.run_limited([peers.find_program("fio"), f"--ioengine=external:{engine or self.engine}", "--group_reporting",
                                  "--name=job", *arguments], SECONDS, cwd=self.work)

    def expect_done(self, *arguments):
        status, output = self.fio(*arguments)
        self.assertEqual(0, status, f"{arguments}\n{output}")
        self.assertIn("err= 0", output)
        return output

    def expect_error(self, pattern, *arguments, **options):
        status, output = self.fio(*arguments, **options)
        self.assertNotIn(status, (0, None), output)
        self.assertGreater(status, 0, output)
        self.assertRegex(output, pattern)
        return output

    # The engine itself.

    def test_it_exports_what_fio_looks_up_and_finds_its_library(self):
        names = subprocess.run(["nm", "-D", "--defined-only", self.engine], capture_output=True, text=True, check=True).stdout
        self.assertEqual(["ioengine"], [line.split()[-1] for line in names.splitlines()])
        dynamic = subprocess.run(["readelf", "-dW", self.engine], capture_output=True, text=True, check=True).stdout
        self.assertIn("Library runpath: [$ORIGIN/..]", dynamic)
        self.assertEqual(["libskiff.so.0", "libc.so.6", "ld-linux-x86-64.so.2"], re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))

    def test_its_options_are_listed(self):
        status, output = peers.run_limited([peers.find_program("fio"), f"--enghelp={self.engine}"], SECONDS)
        self.assertEqual(0, status, output)
        listed = re.findall(r"^(\w+) +: \S", output, re.MULTILINE)
        self.assertEqual(["url", "initiator", "header_digest", "data_digest", "spin", "command_timeout", "restore_timeout"], listed)

    # Data.

    def test_what_is_written_is_there(self):
        for kind in (TCP, ISER):
            with self.target(kind) as target:
                for how in ("--thread", "--thread=0"):
                    for depth in (1, 32):
                        with self.subTest(kind=kind, how=how, depth=depth):
                            self.expect_done(f"--url={target.url()}", *VERIFY, how, f"--iodepth={depth}", "--size=8m")

    def test_several_jobs_at_once(self):
        for kind in (TCP, ISER):
            with self.target(kind) as target:
                for how in ("--thread", "--thread=0"):
                    with self.subTest(kind=kind, how=how):
                        self.expect_done(f"--url={target.url()}", *VERIFY, how, "--iodepth=16", "--size=4m", "--numjobs=4",
                                         "--offset_increment=8m")

    def test_threads_and_processes_with_disks_of_both_kinds(self):
        with self.target(TCP) as tcp:
            (self.work / "other").mkdir()
            with Skiffd(self.work / "other", ISER) as iser:
                self.expect_done(f"--url={tcp.url()}", *VERIFY, "--thread", "--numjobs=2", "--offset_increment=8m", "--size=8m",
                                 "--name=other", f"--url={iser.url()}", *VERIFY, "--thread=0", "--numjobs=2",
                                 "--offset_increment=8m", "--size=8m", "--iodepth=8")
                self.expect_done(f"--filename={escaped(tcp.url())}:{escaped(iser.url())}", *VERIFY, "--size=16m", "--iodepth=8")

    def test_a_job_with_several_disks(self):
        with self.target() as target:
            names = ":".join(escaped(target.url(lun)) for lun in (0, 1))
            for how in ("--thread", "--thread=0"):
                for service in ("roundrobin", "random"):
                    with self.subTest(how=how, service=service):
                        self.expect_done(f"--filename={names}", *VERIFY, how, "--iodepth=32", "--size=16m",
                                         f"--file_service_type={service}")
            # Each got its half.
            for lun in (0, 1):
                self.expect_done(f"--url={target.url(lun)}", "--rw=randwrite", "--verify=crc32c", "--bs=4k", "--size=8m",
                                 "--verify_only", "--randrepeat=1")

    def test_many_sizes_in_any_order(self):
        for kind in (TCP, ISER):
            with self.subTest(kind=kind), self.target(kind) as target:
                self.expect_done(f"--url={target.url()}", "--rw=randrw", "--bsrange=512-1m", "--blockalign=512", "--norandommap",
                                 "--iodepth=24", "--io_size=64m")
                self.expect_done(f"--url={target.url()}", "--rw=write", "--bs=4m", "--iodepth=4", "--verify=crc32c")

    def test_options_that_change_the_way(self):
        with self.target() as target:
            for options in (("--spin=always",), ("--spin=never",), ("--header_digest=1", "--data_digest=1"), ("--initiator=iqn.2026-11.com.example:me",),
                            ("--iodepth_batch=8", "--iodepth_batch_complete_min=4"), ("--iodepth_batch_complete_min=0",),
                            ("--create_serialize=0",), ("--direct=1", "--iomem_align=64k"), ("--verify_async=2",),
                            ("--iodepth=5000",)):
                with self.subTest(options=options):
                    self.expect_done(f"--url={target.url()}", *VERIFY, "--iodepth=16", "--size=4m", *options)
            self.assertIn("iqn.2026-11.com.example:me logged in", target.log())

    def test_uri_is_another_name_of_url(self):
        with self.target() as target:
            self.expect_done(f"--uri={target.url()}", "--rw=read", "--size=1m")

    # What is more than reads and writes.

    def commands(self, capture):
        """The CDBs of a capture, in hexadecimal."""
        dump = subprocess.run([skiff, "dump", capture], capture_output=True, text=True, check=True, timeout=SECONDS).stdout
        return re.findall(r"SCSI Command .*CDB=([0-9a-f]+)", dump)

    def test_sync_and_fsync(self):
        capture = self.work / "capture"
        with self.target(flags=("--trace", capture)) as target:
            self.expect_done(f"--url={target.url()}", "--rw=write", "--bs=4k", "--number_ios=8", "--fsync=2")
            self.expect_done(f"--url={target.url(1)}", "--rw=write", "--bs=4k", "--number_ios=5", "--sync=1")
        commands = self.commands(capture)
        self.assertGreaterEqual(sum(cdb.startswith(("35", "91")) for cdb in commands), 3)  # SYNCHRONIZE CACHE (10), (16)
        writes = [int(cdb[2:4], 16) & 8 for cdb in commands if cdb.startswith(("2a", "8a"))]  # WRITE's bit FUA, SBC-4 5.41
        self.assertEqual([0] * 8 + [8] * 5, writes)

    def test_what_is_trimmed_is_gone(self):
        for kind in (TCP, ISER):
            with self.subTest(kind=kind), self.target(kind) as target:
                url = f"--url={target.url()}"
                self.expect_done(url, "--rw=write", "--bs=64k", "--buffer_pattern=0xa5", "--size=4m", "--iodepth=8")
                self.expect_done(url, "--rw=randtrim", "--bs=64k", "--size=2m", "--iodepth=8")
                zeroes = ("--rw=read", "--bs=64k", "--verify=pattern")
                self.expect_done(url, *zeroes, "--verify_pattern=0x00", "--size=2m")
                self.expect_done(url, *zeroes, "--verify_pattern=0xa5", "--offset=2m", "--size=2m")

    # Mistakes.

    def test_mistakes_in_options(self):
        with self.target() as target:
            url = f"--url={target.url()}"
            for pattern, arguments in {
                    r"skiff: url= is missing, such as url=iscsi://": ("--rw=read", "--size=1m"),
                    r"skiff: url= names one disk, but the job has 2 files": (url, "--rw=read", "--nrfiles=2"),
                    r"skiff: nonsense: not a URL of the form iscsi://": ("--url=nonsense", "--rw=read"),
                    r"skiff: 127\.0\.0\.1: not a URL": ("--filename=127.0.0.1", "--rw=read"),
                    r"bs=768 is no multiple of the disk's block, 512 bytes": (url, "--rw=read", "--bs=768"),
                    r"bs=512 is no multiple of the disk's block, 4096 bytes": (f"--url={target.url(2)}", "--rw=write", "--bs=512"),
                    r"the disk is read-only, and the job writes": (f"--url={target.url(3)}", "--rw=randrw"),
                    r"initiator.*not an iSCSI name|not an iSCSI name": (url, "--rw=read", "--initiator=me"),
                    r"restore_timeout|min value": (url, "--rw=read", "--restore_timeout=0"),
                    r"spin: 'maybe' not found|valid values: auto": (url, "--rw=read", "--spin=maybe"),
                    r"can't be used with offloaded submit": (url, "--rw=read", "--io_submit_mode=offload"),
                    r"'mem/iomem' conflicts": (url, "--rw=read", "--iomem=shm")}.items():
                with self.subTest(arguments=arguments):
                    self.expect_error(pattern, *arguments)

    def test_targets_that_are_not_there(self):
        with self.target() as target:
            self.expect_error(r"skiff: iscsi://.*/9: the target has no logical unit", f"--url={target.url(9)}", "--rw=read")
            self.expect_error(r"skiff: iscsi://.*(no such target|not found|does not exist|Target not found)",
                              f"--url={target.url().replace(':test/', ':other/')}", "--rw=read")
            port = peers.free_port()
            self.expect_error(r"skiff: iscsi://.*Connection refused", f"--url=iscsi://127.0.0.1:{port}/{target.name}/0", "--rw=read")

    def test_units_that_make_no_sense_end_with_an_error(self):
        with self.target() as target:
            self.expect_error(r"skiff: offset \d+ and length 4096 must be multiples of the block size, 512", f"--url={target.url()}",
                              "--rw=randread", "--bs=4k", "--blockalign=256", "--iodepth=16", "--norandommap")

    # Targets that go.

    def run_until_it_is_gone(self, target, action, *arguments):
        """fio's (exit status, output), and how long it ran after the target was gone."""
        gone = []

        def act():
            action()
            gone.append(time.monotonic())
        timer = threading.Timer(2, act)
        timer.start()
        try:
            status, output = self.fio(f"--url={target.url()}", "--bs=4k", "--iodepth=32", "--time_based", "--runtime=60",
                                      "--restore_timeout=2", *arguments)
        finally:
            timer.join()
        return status, output, time.monotonic() - gone[0]

    def test_a_target_that_dies_ends_the_job(self):
        for kind, how, rw in ((TCP, "--thread", "randread"), (TCP, "--thread=0", "randwrite"), (ISER, "--thread=0", "randread")):
            with self.subTest(kind=kind, how=how), self.target(kind) as target:
                status, output, seconds = self.run_until_it_is_gone(
                    target, lambda target=target: os.kill(target.pid, signal.SIGKILL), f"--rw={rw}", how, "--numjobs=2")
                self.assertNotIn(status, (0, None), output)
                self.assertLess(seconds, PATIENCE)
                self.assertIn("the session is lost, and being restored", output)
                self.assertRegex(output, "was lost and not restored in time")

    def test_a_target_that_falls_silent_ends_the_job(self):
        with self.target() as target:
            status, output, seconds = self.run_until_it_is_gone(target, lambda: os.kill(target.pid, signal.SIGSTOP),
                                                                "--rw=randread", "--command_timeout=3")
            os.kill(target.pid, signal.SIGCONT)
            self.assertNotIn(status, (0, None), output)
            self.assertLess(seconds, PATIENCE)

    # Building it.

    def build(self, *arguments, **environment):
        command = [HERE / "build", "--headers", HEADERS, "--library", self.temporary / "lib/libskiff.so.0",
                   "--out", self.work / "libskiff_fio.so", *arguments]
        return peers.run_limited(command, SECONDS, env={**os.environ, **environment})

    def test_sources_of_ones_own_and_of_another_version(self):
        tree = self.work / "sources"
        shutil.copytree(fio_sources.tree(), tree)
        version = tree / "FIO-VERSION-GEN"
        version.write_text(re.sub(r"^DEF_VER=.*", "DEF_VER=fio-3.99", version.read_text(), flags=re.MULTILINE))
        self.assertEqual((0, ""), self.build("--fio-source", tree))
        with self.target() as target:
            shutil.copy(library, self.temporary / "libskiff.so.0")  # In the folder above.
            self.expect_error(r"skiff: this engine was built for fio-3\.99, and this is fio-3\.\d+", f"--url={target.url()}",
                              "--rw=read", engine=self.work / "libskiff_fio.so")

    def test_mistakes_in_building(self):
        for pattern, arguments in {
                r"build: .* does not have fio's sources: ioengines\.h is missing": ("--fio-source", self.work),
                r"build: /nowhere/skiff/skiff\.h is not there": ("--headers", "/nowhere")}.items():
            with self.subTest(arguments=arguments):
                status, output = self.build(*arguments)
                self.assertEqual(1, status, output)
                self.assertRegex(output, rf"\A{pattern}.*\n\Z")

    def test_the_machines_lists_become_lists_of_sources(self):
        etc = self.work / "etc"
        (etc / "sources.list.d").mkdir(parents=True)
        (etc / "sources.list").write_text("# deb http://comment/ x main\ndeb [arch=amd64] http://one/debian stable main\n"
                                          "deb-src http://two/debian stable main\n")
        (etc / "sources.list.d/a.list").write_text("deb http://one.list/ stable main\n")
        (etc / "sources.list.d/b.sources").write_text("# Comment\nTypes: deb\nURIs: http://three\nSuites: x\n\n"
                                                      "Types: deb deb-src\n# Another\nURIs: http://four\nSuites: y\n")
        (etc / "sources.list.d/c.sources.off").write_text("Types: deb\nURIs: http://off\nSuites: y\n")
        one_line, stanzas = fio_sources.source_entries(etc)
        self.assertEqual("deb-src [arch=amd64] http://one/debian stable main\ndeb-src http://two/debian stable main\n"
                         "deb-src http://one.list/ stable main\n", one_line)
        self.assertEqual("Types: deb-src\nURIs: http://three\nSuites: x\n\nTypes: deb-src\nURIs: http://four\nSuites: y\n", stanzas)

    def test_a_mirror_that_does_not_answer_is_named(self):
        etc = self.work / "etc"
        etc.mkdir()
        (etc / "sources.list").write_text(f"deb [trusted=yes] http://127.0.0.1:{peers.free_port()}/debian stable main\n")
        sources = self.work / "sources"
        sources.mkdir()
        with self.assertRaisesRegex(fio_sources.SourceError, r"the sources of fio 3\.33-3: apt-get ended with status 100"):
            fio_sources.Apt(self.work / "apt", etc).fetch("fio", "3.33-3", sources)

    def test_a_machine_without_lists_is_told_what_to_do(self):
        with self.assertRaisesRegex(fio_sources.SourceError, "names no packages: .*--fio-source"):
            fio_sources.Apt(self.work / "apt", self.work)


def main():
    global library, skiffd, skiff  # pylint: disable=global-statement
    arguments = sys.argv[1:]
    mine = arguments[:arguments.index("--")] if "--" in arguments else arguments
    library, skiffd, skiff = (pathlib.Path(argument).absolute() for argument in mine)
    unittest.main(argv=[sys.argv[0], *arguments[len(mine) + 1:]], verbosity=2)


if __name__ == "__main__":
    main()
