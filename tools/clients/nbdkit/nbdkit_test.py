#!/usr/bin/python3
"""Debian's nbdkit with Skiff's plugin, used by Debian's NBD clients: libnbd, its tools, and QEMU's.

Usage: nbdkit_test.py SKIFFD LIBRARY PLUGIN [PATTERN]    with a pattern: the cases that match it

It is Debian's Python, which knows libnbd's module.
"""

import concurrent.futures
import errno
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import nbd

ROOT = pathlib.Path.cwd()
sys.path.insert(0, str(ROOT / "testing/interop"))
sys.dont_write_bytecode = True
import cases  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

SECONDS = 60
SIZE = 32 << 20
READ_ONLY_BYTES = os.urandom(1 << 20)
# LUNs by what is particular to them.
SMALL, LARGE, FILE, READ_ONLY = range(4)
BLOCK_SIZES = {SMALL: 512, LARGE: 4096}
CLIENTS = 4


def expect(what, fact):
    if not fact:
        raise AssertionError(what)


def expect_error(what, number, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        expect(f"{what}: {error}", error.errnum == number)
        return
    raise AssertionError(f"{what} went well")


def run(*command):
    """A program's output; raises if it fails."""
    status, output = peers.run_limited([peers.find_program(str(command[0])), *command[1:]], SECONDS)
    if status != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {status}\n{output}")
    return output


class Skiffd(peers.Skiffd):
    """Over TCP, or iSER by libfabric's provider tcp."""

    def __init__(self, program, directory, scheme, size=SIZE):
        self.scheme = scheme
        self.file = directory / f"{scheme}.img"
        read_only = directory / "read_only.img"
        read_only.write_bytes(READ_ONLY_BYTES)
        super().__init__(program, (), directory)
        self.size = size
        self.read_only = read_only

    @property
    def luns(self):
        return (f"ram:{SIZE}", f"ram:{SIZE},block_size=4096", f"file:{self.file}",
                f"file:{self.read_only},size={len(READ_ONLY_BYTES)},read_only")

    @luns.setter
    def luns(self, _):
        pass

    def start(self):
        with open(self.file, "ab") as file:
            file.truncate(self.size)
        super().start()

    def _description(self):
        description = super()._description()
        if self.scheme == "libfabric":
            description[1] += "?provider=tcp"
        return description

    def url(self, lun=None):
        if self.scheme == "tcp":
            return super().url(lun)
        return f"iser://{self.portal}/{self.name}/{lun}?transport=libfabric&provider=tcp"


class Nbdkit:
    """nbdkit with the plugin, as a daemon of its own, or in the foreground with its messages in a file."""

    plugin = None

    def __init__(self, directory, url, *settings, options=(), daemon=False):
        self._directory = pathlib.Path(tempfile.mkdtemp(dir=directory))
        self._socket = self._directory / "socket"
        self._pid_file = self._directory / "pid"
        self._log = self._directory / "log"
        self._options = [*options, "-U", self._socket, "-P", self._pid_file]
        self._settings = [url, *settings]
        self._daemon = daemon
        self._process = None
        self._clients = []

    @property
    def uri(self):
        return f"nbd+unix:///?socket={self._socket}"

    @property
    def pid(self):
        return int(self._pid_file.read_text(encoding="ascii"))

    def log(self):
        return self._log.read_text(encoding="utf-8")

    def start(self):
        """Its exit status and messages, or None once it is ready."""
        command = [peers.find_program("nbdkit"), *self._options, self.plugin, *self._settings]
        if self._daemon:
            status, output = peers.run_limited(command, SECONDS)
            return None if status == 0 else (status, output)
        with open(self._log, "wb") as log:
            self._process = peers.spawn([command[0], "-f", *command[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS
        while not self._pid_file.exists():
            if self._process.poll() is not None:
                return self._process.returncode, self.log()
            expect("nbdkit is ready in time", time.monotonic() < deadline)
            time.sleep(0.02)
        return None

    def stop(self):
        """Ends it; how many seconds that took. nbdkit waits for its clients, whose requests may still be at work."""
        began = time.monotonic()
        pid = self.pid
        os.kill(pid, signal.SIGTERM)
        for client in self._clients:
            try:
                client.shutdown(nbd.SHUTDOWN_ABANDON_PENDING)
            except nbd.Error:
                pass  # nbdkit was faster.
        while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < began + SECONDS:
            if self._process is not None and self._process.poll() is not None:
                expect(f"nbdkit ends well: {self._process.returncode}", self._process.returncode == 0)
                break
            time.sleep(0.02)
        else:
            if pathlib.Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
                raise AssertionError("nbdkit does not end")
        return time.monotonic() - began

    def __enter__(self):
        failure = self.start()
        expect(f"nbdkit starts: {failure}", failure is None)
        return self

    def __exit__(self, kind, *_):
        try:
            self.stop()
        except (AssertionError, nbd.Error):
            # What went wrong before is what counts.
            if kind is None:
                raise

    def connect(self, strict=True):
        handle = nbd.NBD()
        handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
        if not strict:
            # Requests that the server did not ask for.
            handle.set_strict_mode(0)
        handle.connect_uri(self.uri)
        self._clients.append(handle)
        return handle


class Model:
    """What a disk has to have after random requests, which are all as long as `grain` says, and at its multiples."""

    def __init__(self, handle, grain, first=0, size=4 << 20, seed=1):
        self._handle = handle
        self._grain = grain
        self._first = first
        self._random = random.Random(seed)
        self._handle.zero(size, first)
        self.data = bytearray(size)

    def step(self):
        length = self._random.randint(1, 64) * self._grain
        at = self._random.randrange((len(self.data) - length) // self._grain) * self._grain
        flags = self._random.choice((0, nbd.CMD_FLAG_FUA))
        kind = self._random.choice(("read", "write", "write", "zero", "trim", "flush"))
        if kind == "read":
            self._expect(at, length)
        elif kind == "write":
            data = self._random.randbytes(length)
            self._handle.pwrite(data, self._first + at, flags)
            self.data[at:at + length] = data
        elif kind == "zero":
            self._handle.zero(length, self._first + at, flags | self._random.choice((0, nbd.CMD_FLAG_NO_HOLE)))
            self.data[at:at + length] = bytes(length)
        elif kind == "trim":
            # It may do less: these blocks are unknown until they are written.
            self._handle.trim(length, self._first + at, flags)
            self._handle.pwrite(bytes(self.data[at:at + length]), self._first + at)
        else:
            self._handle.flush()

    def run(self, steps):
        for _ in range(steps):
            self.step()
        self._expect(0, len(self.data))

    def _expect(self, at, length):
        expect(f"{length} bytes at {at} are what was written", self._handle.pread(length, self._first + at) == self.data[at:at + length])


def one_client(uri, number, grain):
    """In a process of its own."""
    handle = nbd.NBD()
    handle.connect_uri(uri)
    Model(handle, grain, first=number * (SIZE // CLIENTS), seed=number).run(200)


class NbdkitTest:
    """The cases that one target is enough for."""

    def __init__(self, target, directory):
        self._target = target
        self._directory = directory

    def nbdkit(self, lun, *settings, **how):
        return Nbdkit(self._directory, self._target.url(lun), *settings, **how)

    def facts(self):
        for lun, block_size in BLOCK_SIZES.items():
            with self.nbdkit(lun, daemon=True) as server:
                handle = server.connect()
                expect("the size", handle.get_size() == SIZE)
                expect("the least block", handle.get_block_size(nbd.SIZE_MINIMUM) == block_size)
                expect("the preferred block", handle.get_block_size(nbd.SIZE_PREFERRED) == 4096)
                for fact in ("can_fua", "can_flush", "can_trim", "can_zero", "can_fast_zero", "can_multi_conn"):
                    expect(fact, getattr(handle, fact)())
                expect("it can be written", not handle.is_read_only())

    def random_requests(self, lun):
        with self.nbdkit(lun, daemon=True) as server:
            handle = server.connect()
            Model(handle, BLOCK_SIZES[lun]).run(400)

    def odd_requests(self, lun):
        """Refused, with a message that names the filter; with the filter they work."""
        block_size = BLOCK_SIZES[lun]
        with self.nbdkit(lun) as server:
            handle = server.connect(strict=False)
            for call, arguments in ((handle.pread, (block_size, 1)), (handle.pread, (block_size - 1, 0)),
                                    (handle.pwrite, (b"odd", 0)), (handle.zero, (block_size, block_size // 2)),
                                    (handle.trim, (block_size // 2, 0))):
                expect_error(f"{call.__name__}{arguments}", errno.EINVAL, call, *arguments)
            expect(f"the log names the rule: {server.log()}",
                   f"multiples of the block size, {block_size} (--filter=blocksize" in server.log())
        with self.nbdkit(lun, options=("--filter=blocksize",)) as server:
            handle = server.connect()
            Model(handle, 7, size=100003).run(200)

    def zeroes_and_holes(self):
        with self.nbdkit(SMALL) as server:
            handle = server.connect()
            handle.trim(SIZE, 0)
            handle.pwrite(b"x" * (1 << 20), 4 << 20)
            found = []
            handle.block_status(SIZE, 0, lambda context, offset, entries, error: found.extend(entries))
            hole = nbd.STATE_HOLE | nbd.STATE_ZERO
            expect(f"extents: {found}", found == [4 << 20, hole, 1 << 20, 0, 27 << 20, hole])
            # From within one, which need not begin at a block's.
            found.clear()
            handle.block_status(1 << 20, (4 << 20) + 512, lambda context, offset, entries, error: found.extend(entries))
            expect(f"extents from 512 on: {found}", found[:2] == [(1 << 20) - 512, 0])
            handle.zero(1 << 20, 4 << 20, nbd.CMD_FLAG_FAST_ZERO)
            expect("zeroes", handle.pread(1 << 20, 4 << 20) == bytes(1 << 20))
            expect_error("a fast zero that has to allocate", errno.ENOTSUP, handle.zero, 4096, 0,
                         nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)

    def clients_in_parallel(self, lun):
        with self.nbdkit(lun, "threads=2") as server, concurrent.futures.ProcessPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(one_client, server.uri, number, BLOCK_SIZES[lun]) for number in range(CLIENTS)]:
                done.result(SECONDS)

    def images(self, lun):
        """By the tools that people have, with several connections and many requests."""
        image, back = self._directory / "image", self._directory / "back"
        image.write_bytes(os.urandom(SIZE))
        with self.nbdkit(lun) as server:
            run("nbdcopy", "--connections=4", "--requests=32", "--flush", image, server.uri)
            run("nbdcopy", "--connections=4", "--requests=32", server.uri, back)
            expect("nbdcopy reads what it wrote", back.read_bytes() == image.read_bytes())
            image.write_bytes(os.urandom(SIZE // 2) + bytes(SIZE // 2))
            run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, server.uri)
            expect("qemu-img compares", "identical" in run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, server.uri))
            run("qemu-io", "-f", "raw", "-c", "write -f -P 7 1M 64k", "-c", "read -P 7 1M 64k", "-c", "write -P 8 1001 513",
                "-c", "read -P 8 1001 513", "-c", "write -z -u 1M 4k", "-c", "read -P 0 1M 4k", "-c", "discard 2M 1M",
                "-c", "flush", server.uri)

    def read_only(self):
        with self.nbdkit(READ_ONLY) as server:
            handle = server.connect(strict=False)
            expect("it is read-only", handle.is_read_only())
            expect("what it has", handle.pread(len(READ_ONLY_BYTES), 0) == READ_ONLY_BYTES)
            expect_error("a write", errno.EPERM, handle.pwrite, bytes(512), 0)
        with self.nbdkit(SMALL, options=("-r",)) as server:
            handle = server.connect()
            expect("-r", handle.is_read_only())

    def settings(self):
        """All of them at once."""
        digests = ("header-digest=true", "data-digest=true") if self._target.scheme == "tcp" else ()
        name = "iqn.2026-11.org.example:nbdkit"
        with self.nbdkit(SMALL, f"initiator-name={name}", "threads=3", "spin=false", "max-commands=2", "command-timeout=30",
                         "connect-timeout=5", "login-timeout=5", "ping-interval=1", "ping-timeout=2", "restore-timeout=9",
                         *digests) as server:
            handle = server.connect()
            Model(handle, 512).run(50)
            expect("the target knows the name", name in self._target.sessions(r"iqn\..*\n"))


class StartTest:
    """What nbdkit says before it is a daemon."""

    def __init__(self, target, directory):
        self._target = target
        self._directory = directory

    def refused(self, words, url, *settings):
        began = time.monotonic()
        server = Nbdkit(self._directory, url, *settings, daemon=True)
        failure = server.start()
        if failure is None:
            server.stop()
        expect(f"it does not start, and says '{words}': {failure}", failure and failure[0] == 1 and words in failure[1])
        expect("that does not take long", time.monotonic() - began < 10)

    def mistakes(self):
        url = self._target.url(0)
        nobody = f"iscsi://127.0.0.1:{peers.free_port()}/{self._target.name}/0"
        for words, arguments in (
                ('the scheme is "iscs"', ("iscs" + url[5:],)),
                ('the scheme is "iscs"', ("iscs" + url[5:], "check=false")),
                ("Connection refused - is a target listening there?", (nobody,)),
                ("no logical unit", (self._target.url(77),)),
                ("not found", (url.replace(":test/", ":other/"),)),
                ("the URL of a disk is missing", ("threads=1",)),
                ("threads=0: it has to be from 1 to 1024", (url, "threads=0")),
                ("login-timeout=86401: it has to be from 1 to 86400", (url, "login-timeout=86401")),
                ("max-commands: ", (url, "max-commands=many")),
                ("could not decipher boolean", (url, "spin=perhaps")),
                ("unknown parameter 'colour'", (url, "colour=red")),
                ("iSCSI name", (url, "initiator-name=nobody"))):
            self.refused(words, *arguments)

    def help(self):
        text = run("nbdkit", Nbdkit.plugin, "--help")
        expect(f"the URL's forms: {text}", "iscsi://, iser:// or auto://HOST" in text)
        facts = run("nbdkit", Nbdkit.plugin, "--dump-plugin")
        for fact in ("magic_config_key=url", "thread_model=parallel", "skiff_transports=tcp"):
            expect(f"{fact}: {facts}", fact in facts)


class LossTest:
    """Targets that go, and come back."""

    def __init__(self, program, directory, scheme):
        self._target = Skiffd(program, directory, scheme)
        self._directory = directory

    def later(self):
        """nbdkit is there before the target is."""
        with self._target:
            url = self._target.url(FILE)
        with Nbdkit(self._directory, url, "check=false", daemon=True) as server:
            try:
                server.connect()
            except nbd.Error:
                pass
            else:
                raise AssertionError("a client connects to a disk that is not there")
            with self._target:
                handle = server.connect()
                Model(handle, 512).run(50)

    def gone_for_long(self):
        """Requests fail within the time that was set, then work again by themselves. A new size is for new clients."""
        with self._target, Nbdkit(self._directory, self._target.url(FILE), "restore-timeout=2") as server:
            handle = server.connect()
            handle.pwrite(b"kept" * 128, 0, nbd.CMD_FLAG_FUA)
            self._target.kill()
            began = time.monotonic()
            expect_error("a read", errno.EIO, handle.pread, 512, 0)
            expect_error("a write", errno.EIO, handle.pwrite, bytes(512), 512)
            seconds = time.monotonic() - began
            expect(f"they fail in time, after {seconds} s", seconds < 20)
            expect(f"the log says why: {server.log()}", re.search(r"the connection is lost(.|\n)*until the target is back", server.log()))
            self._target.size = 2 * SIZE
            self._target.start()
            self._until(lambda: handle.pread(512, 0) == b"kept" * 128)
            expect("the size that it knows", handle.get_size() == SIZE)
            later = server.connect()
            expect("the new size", later.get_size() == 2 * SIZE)

    @staticmethod
    def _until(condition):
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                if condition():
                    return
            except nbd.Error:
                pass
            expect("it works again in time", time.monotonic() < deadline)
            time.sleep(0.2)

    def gone_for_a_while(self):
        """A client with requests at work notices nothing."""
        length = 64 << 10
        with self._target, Nbdkit(self._directory, self._target.url(FILE), "restore-timeout=30") as server:
            handle = server.connect()
            for _ in range(3):
                data = os.urandom(64 * length)
                sent = [handle.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data[at:at + length])), at)
                        for at in range(0, len(data), length)]
                handle.poll(0)
                self._target.kill()
                self._target.start()
                deadline = time.monotonic() + SECONDS
                while handle.aio_in_flight() > 0 and time.monotonic() < deadline:
                    handle.poll(1000)
                for request in sent:
                    expect(f"request {request} ends", handle.aio_command_completed(request))
                expect("what was written is read", handle.pread(len(data), 0) == data)

    def ends_without_a_target(self):
        with self._target:
            server = Nbdkit(self._directory, self._target.url(FILE), "restore-timeout=3")
            expect("it starts", server.start() is None)
            handle = server.connect()
            handle.pread(512, 0)
            self._target.kill()
            handle.aio_pread(nbd.Buffer(512), 0)
            seconds = server.stop()
            expect(f"it ends in time, after {seconds} s, with a request at work", seconds < 20)


def run_all(program, directory, scheme, collected, pattern):
    def case(name, *call):
        if re.search(pattern, f"{scheme}: {name}"):
            collected.run(f"{scheme}: {name}", *call)
    target = Skiffd(program, directory, scheme)
    with target:
        test = NbdkitTest(target, directory)
        single = ("facts", "zeroes_and_holes", "read_only", "settings")
        for name in single:
            case(name, getattr(test, name))
        for name in ("random_requests", "odd_requests", "clients_in_parallel", "images"):
            for lun, block_size in BLOCK_SIZES.items():
                case(f"{name}, blocks of {block_size}", getattr(test, name), lun)
        if scheme == "tcp":
            start = StartTest(target, directory)
            case("mistakes", start.mistakes)
            case("help", start.help)
    loss = LossTest(program, directory, scheme)
    for name in ("later", "gone_for_long", "gone_for_a_while", "ends_without_a_target"):
        case(name, getattr(loss, name))


def main():
    skiffd, library, plugin = map(os.path.abspath, sys.argv[1:4])
    collected = cases.Cases("nbdkit")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        directory = pathlib.Path(folder)
        # As they are installed: the plugin finds the library one folder above.
        (directory / "lib/skiff").mkdir(parents=True)
        shutil.copy(library, directory / "lib/libskiff.so.0")
        Nbdkit.plugin = shutil.copy(plugin, directory / "lib/skiff")
        for scheme in ("tcp", "libfabric"):
            run_all(skiffd, directory, scheme, collected, sys.argv[4] if len(sys.argv) > 4 else "")
        status = collected.finish()
        if status != 0:
            print((directory / "skiffd.log").read_text(encoding="utf-8")[-6000:])
    return status


if __name__ == "__main__":
    sys.exit(main())
