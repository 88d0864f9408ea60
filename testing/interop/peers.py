"""Starts and stops the programs that Skiff is tested and compared with, and Skiff's own.

Everything listens on the loopback interface only, on ports that were free, and ends with the process that started it.
"""

import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import time

TARGET_NAME = "iqn.2026-11.org.example.skiff:test"
START_SECONDS = 60


class PeerError(Exception):
    """A program that did not do what was asked of it."""


def find_program(name):
    """The path of an installed program, also where only root's PATH leads."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise PeerError(f"{name} is not installed: run tools/install-deps test")
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spawn(command, core=None, first=False, **options):
    """A child that ends, by SIGKILL, when this process ends in whatever way.

    `first`: it has its core when it wants it, whoever else is there (SCHED_RR, which takes root).
    """
    prefix = [find_program("setpriv"), "--pdeathsig", "KILL", "--"]
    if core is not None:
        prefix += [find_program("taskset"), "-c", str(core)]
    if first:
        prefix += [find_program("chrt"), "--rr", "1"]
    return subprocess.Popen(prefix + [str(part) for part in command], **options)


def stop(process, seconds=5):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def wait_for_port(port, process, what):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PeerError(f"{what} ended with status {process.returncode} before it listened")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise PeerError(f"{what} does not listen on port {port} after {START_SECONDS} s")


def write_secret(directory, name, secret):
    """A file that only its owner may read."""
    path = pathlib.Path(directory) / f"{name}.secret"
    path.touch(mode=0o600)
    path.write_text(f"{secret}\n", encoding="ascii")
    return path


class Target:
    """What the targets have in common: a portal, a name and the number of the first logical unit."""

    host = "127.0.0.1"
    name = TARGET_NAME
    lun = 0
    port = 0
    process = None

    @property
    def portal(self):
        return f"{self.host}:{self.port}"

    def url(self, lun=None):
        return f"iscsi://{self.portal}/{self.name}/{self.lun if lun is None else lun}"

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        raise NotImplementedError

    def stop(self):
        if self.process is not None:
            stop(self.process)
            self.process = None

    def kill(self):
        """Ends it as a crash would."""
        self.process.kill()
        self.stop()


class Tgtd(Target):
    """Debian's tgt with one logical unit on a file. Stopped and started again, it keeps its port and its file."""

    lun = 1
    lld = "iscsi"

    def __init__(self, backing_file, directory, bstype="rdwr", core=None, parameters=None):
        self.backing_file = pathlib.Path(backing_file)
        self.directory = pathlib.Path(directory)
        self.bstype = bstype
        self.core = core
        self.parameters = {"MaxRecvDataSegmentLength": 262144, **(parameters or {})}
        self.port = free_port()
        # tgtadm finds its daemon by a socket in this place; the number only has to be the same for both.
        self.environment = {**os.environ, "TGT_IPC_SOCKET": str(self.directory / f"tgtd{self.port}")}

    def start(self):
        log = open(self.directory / "tgtd.log", "ab")
        self.process = spawn([find_program("tgtd"), "-f", "-C", 1, *self._portal_options()], core=self.core,
                             stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
        log.close()
        self._wait_until_it_listens()
        self._admin("--op", "new", "--mode", "target", "-T", self.name)
        self._admin("--op", "new", "--mode", "logicalunit", "--lun", "1", "-b", self.backing_file,
                    "--bstype", self.bstype)
        for key, value in self.parameters.items():
            self.set(key, value)
        self._admin("--op", "bind", "--mode", "target", "-I", "ALL")

    def _portal_options(self):
        return ["--iscsi", f"portal={self.portal}"]

    def _wait_until_it_listens(self):
        wait_for_port(self.port, self.process, "tgtd")

    def connections(self):
        """What tgtadm says about the connections; nothing when there are none."""
        return self._admin("--op", "show", "--mode", "conn").strip()

    def set(self, key, value):
        """A parameter that it negotiates with from the next login on."""
        self._admin("--op", "update", "--mode", "target", "--name", key, "--value", value)

    def authenticate(self, user, own):
        """Lets in, from the next login on, who knows this name and this secret; its own are for who asks."""
        for (name, secret), options in ((user, ()), (own, ("--outgoing",))):
            self._admin("--op", "new", "--mode", "account", "--user", name, "--password", secret, target=False)
            self._admin("--op", "bind", "--mode", "account", "--user", name, *options)

    def _admin(self, *arguments, target=True):
        command = [find_program("tgtadm"), "-C", "1", "--lld", self.lld, *(("--tid", "1") if target else ()),
                   *map(str, arguments)]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=START_SECONDS)
        if result.returncode != 0:
            raise PeerError(f"{' '.join(command)}: {result.stderr.strip()}")
        return result.stdout


class Skiffd(Target):
    """Skiff's target with the logical units that `luns` says, in the words of its --lun flag."""

    scheme = "tcp"
    start_seconds = START_SECONDS

    def __init__(self, program, luns, directory, core=None, flags=()):
        self.program = program
        self.luns = luns
        self.directory = pathlib.Path(directory)
        self.core = core
        self.flags = flags

    def start(self):
        log = open(self.directory / "skiffd.log", "ab")
        self.process = spawn([self.program, *self._description(), *self.flags], core=self.core, stdout=subprocess.PIPE, stderr=log,
                             stdin=subprocess.DEVNULL, text=True)
        log.close()
        ready, _, _ = select.select([self.process.stdout], [], [], self.start_seconds)
        line = self.process.stdout.readline() if ready else ""
        port = re.search(rf"{self.scheme}://{re.escape(self.host)}:(\d+)", line)
        if port is None:
            raise PeerError(f"skiffd is not ready after {self.start_seconds} s; it printed {line!r}")
        self.port = int(port[1])

    def log(self):
        return (self.directory / "skiffd.log").read_text(encoding="utf-8")

    def sessions(self, last=r" device .*\n"):
        """What it says of its sessions from now on, up to a line of that kind; the default is the last one of an RDMA session."""
        before = len(self.log())
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + START_SECONDS
        while not re.search(rf" 0 sessions\n|{last}", self.log()[before:]):
            if time.monotonic() > deadline:
                raise PeerError(f"skiffd does not report its sessions within {START_SECONDS} s; "
                                f"it said {self.log()[before:]!r}")
            time.sleep(0.05)
        return self.log()[before:]

    def _description(self):
        description = ["--listen", f"{self.scheme}://{self.portal}", "--open", "--target", self.name]
        for lun in self.luns:
            description += ["--lun", lun]
        return description


class ChapSkiffd(Skiffd):
    """A target, and discovery, for one user, both with a name and a secret; it has its own for who asks."""

    def __init__(self, program, directory, user, own):
        super().__init__(program, (), directory)
        self._user = user
        self._own = own

    def _description(self):
        user, own = (write_secret(self.directory, *account) for account in (self._user, self._own))
        account = f'name: "{self._user[0]}" secret_file: "{user}" own_name: "{self._own[0]}" own_secret_file: "{own}"'
        config = self.directory / "skiffd.conf"
        config.write_text(f"""\
portal: "{self.scheme}://{self.portal}"
discovery_account {{ {account} }}
target {{
  name: "{self.name}"
  account {{ {account} }}
  lun {{ ram {{ size: "16MiB" }} }}
}}
""", encoding="utf-8")
        return ["--config", config]


def cpu_seconds(pid):
    """Processor time, user and system, of a process and its threads."""
    nanoseconds = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as stat:
            nanoseconds += int(stat.read().split()[0])
    return nanoseconds * 1e-9


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_limited(command, seconds, **options):
    """Runs a command; (exit status or None after the limit, its output and errors)."""
    process = spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    errors="replace", start_new_session=True, **options)
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
