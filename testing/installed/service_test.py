#!/usr/bin/env python3
"""skiffd as Debian's package installs it and systemd runs it, and Linux's initiator, which uses a disk all the time.

Usage: service_test.py TARGET_PACKAGE METRICS_PACKAGE UPGRADE     in a guest with --debian and --device roce

UPGRADE is TARGET_PACKAGE with a later version.
"""

import os
import pathlib
import re
import signal
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "interop"), str(HERE.parent / "linux"), str(HERE)]
from cases import Cases  # pylint: disable=wrong-import-position
from checked_io import CheckedIo  # pylint: disable=wrong-import-position
from kernel import Failure, KernelLog, Session, expect, run, wait_for  # pylint: disable=wrong-import-position

UNIT = "skiffd.service"
PORTAL = "127.0.0.1:3260"
RDMA_PORTAL = f"{os.environ['SKIFF_VM_ROCE_ADDRESS']}:3260"
TARGET = "iqn.2026-11.com.example:disks"
RDMA_TARGET = "iqn.2026-11.com.example:rdma"
ACCOUNT, SECRET = "client", "what only the client knows"
CONFIG = pathlib.Path("/etc/skiff/skiffd.conf")
SECRET_FILE = pathlib.Path("/etc/skiff/client.secret")
STATE = pathlib.Path("/var/lib/skiff")
DISK = STATE / "disk.img"
METRICS = "http://127.0.0.1:9464/metrics"
# systemd's exposure, from 0 to 10: it calls less than 5 "OK", and more than that worse.
MAX_EXPOSURE = 3.0
# Long enough for a slow machine to turn its reactors in.
WATCHDOG_SECONDS = 10
OPERATIONS = 50
RESTARTS = 3
PACKAGE_SECONDS = 150
# What is written while packages come and go, by others than them.
NOT_THEIRS = re.compile(r"/(var/(log|cache|lib/(dpkg|systemd/(catalog|timers|random-seed)|iscsi))|tmp|root)"
                        r"|/etc/(iscsi|[a-z]*(passwd|shadow|group)-?$)|__pycache__")

TEXT = """\
portal: "tcp://{portal}"
metrics {{}}
# Emulated processors are few, and slow.
reactors {{ count: 1 spin: "never" }}
target {{
  name: "{target}"
  account {{ name: "{account}" secret_file: "{secret}" }}
  lun {{ file {{ path: "{disk}" size: "64MiB" }} }}
  {lun}
}}
{more}
"""
# Not in memory: the data would end with the process, and sessions are not handed over then.
ADDED_LUN = f'lun {{ file {{ path: "{STATE}/added.img" size: "16MiB" }} }}'
OVER_RDMA = f"""\
portal: "verbs://{RDMA_PORTAL}"
target {{
  name: "{RDMA_TARGET}"
  account {{ name: "{ACCOUNT}" secret_file: "{SECRET_FILE}" }}
  lun {{ ram {{ size: "16MiB" }} }}
}}
"""


def show(name):
    return run("systemctl", "show", f"--property={name}", "--value", UNIT).strip()


def main_pid():
    return int(show("MainPID"))


def journal(*options):
    return run("journalctl", "--quiet", "--no-pager", "--output=cat", f"--unit={UNIT}", *options)


def write_config(lun="", more=""):
    CONFIG.write_text(TEXT.format(portal=PORTAL, target=TARGET, account=ACCOUNT, secret=SECRET_FILE, disk=DISK, lun=lun,
                                  more=more), encoding="ascii")


def authenticate(session):
    for name, value in {"authmethod": "CHAP", "username": ACCOUNT, "password": SECRET}.items():
        session.set(f"node.session.auth.{name}", value)


def files():
    """What a package could leave behind: what is its own in /usr is asked of dpkg, as there is too much else."""
    found = run("find", "/etc", "/var", "/opt", "/srv", "/run/skiff", "/run/systemd/system", check=False)
    return {path for path in found.splitlines() if path.startswith("/") and not NOT_THEIRS.search(path)}


def dpkg(*arguments):
    run("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--force-confold", *arguments, seconds=PACKAGE_SECONDS)


class Service:
    """The cases, in their order: each goes on with what the ones before have left."""

    def __init__(self, target_package, metrics_package, upgrade):
        self._packages = (target_package, metrics_package)
        self._upgrade = upgrade
        self._session = Session("default", PORTAL, TARGET)
        self._before = set()
        self._log = None
        self._io = None

    def _goes_on(self, why):
        """The disk that is used is there again, and still."""
        enough = self._io.done + OPERATIONS
        wait_for(f"reads and writes go on after {why}", lambda: self._io.failure or self._io.done >= enough)
        expect(f"no read or write fails by {why}: {self._io.failure}", self._io.failure is None)

    def _drops(self):
        """How often the kernel has lost the connection so far."""
        return len(self._log.matching("detected conn error"))

    def _interrupted_by(self, why, action):
        """Something that ends the process while its disk is used, after which there is another one."""
        before = main_pid()
        action()
        expect(f"{UNIT} is active after {why}", show("ActiveState") == "active")
        expect(f"there is another process after {why}", main_pid() not in (0, before))
        self._goes_on(why)

    def is_installed(self):
        run("systemctl", "is-system-running", "--wait", check=False)
        self._before = files()
        dpkg("--install", *self._packages)
        expect("systemd starts it with the machine", run("systemctl", "is-enabled", UNIT).strip() == "enabled")
        facts = {name: show(name) for name in ("ActiveState", "SubState", "Type", "User", "WatchdogUSec")}
        expect(f"it runs, as it has told: {facts}", facts == {
            "ActiveState": "active", "SubState": "running", "Type": "notify", "User": "skiff", "WatchdogUSec": "30s"})
        status = pathlib.Path(f"/proc/{main_pid()}/status").read_text(encoding="ascii")
        owner = run("id", "--user", "skiff").strip()
        expect(f"its process is the user skiff's: {status}", re.search(rf"^Uid:\t{owner}\t", status, re.MULTILINE))
        expect("it has told what it does", show("StatusText") != "")

    def is_confined(self):
        told = run("systemd-analyze", "security", "--no-pager", UNIT)
        found = re.search(r"Overall exposure level for skiffd\.service: ([\d.]+) (\w+)", told)
        print(found[0])
        expect(f"systemd calls it OK: {found[0]}", found[2] == "OK" and float(found[1]) <= MAX_EXPOSURE)

    def is_configured(self):
        SECRET_FILE.write_text(SECRET, encoding="ascii")
        SECRET_FILE.chmod(0o600)
        run("chown", "skiff:", SECRET_FILE)
        write_config()
        drop_in = pathlib.Path(f"/run/systemd/system/{UNIT}.d")
        drop_in.mkdir(parents=True)
        (drop_in / "watchdog.conf").write_text(f"[Service]\nWatchdogSec={WATCHDOG_SECONDS}\n", encoding="ascii")
        run("systemctl", "daemon-reload")
        run("systemctl", "restart", UNIT)

    def lets_in(self):
        run("modprobe", "--all", "sd_mod", "iscsi_tcp")
        self._session.discover()
        try:
            self._session.login()
            raise Failure("the initiator is let in without a secret")
        except Failure as failure:
            expect(f"it is refused for want of a secret: {failure}", "authorization failure" in str(failure))
        warnings = journal("--priority=warning")
        expect(f"the journal knows warnings from the rest: {warnings}", "login failed" in warnings and "discovers" not in warnings)
        authenticate(self._session)
        self._session.login()
        self._log = KernelLog()
        self._io = CheckedIo(self._session.disk(0).device)
        self._goes_on("the login")

    def is_reloaded(self):
        before = main_pid()
        write_config(ADDED_LUN)
        run("systemctl", "reload", UNIT)
        wait_for("the log tells of the change", lambda: "LUN 1 is added" in journal())
        expect("it is the same process", main_pid() == before)
        run("iscsiadm", "--mode=session", "--rescan")
        expect("the new disk is there", self._session.disk(1).size == 16 << 20)
        self._goes_on("a reload")
        expect("no connection is lost by a reload", self._drops() == 0)

    def serves_over_rdma(self):
        """A device is what systemd could keep from it."""
        write_config(ADDED_LUN, OVER_RDMA)
        run("systemctl", "reload", UNIT)
        wait_for("the log tells of the portal", lambda: f"portal verbs://{RDMA_PORTAL} is opened" in journal())
        run("modprobe", "ib_iser")
        session = Session("iser", RDMA_PORTAL, RDMA_TARGET)
        session.discover()
        authenticate(session)
        session.login()
        io = CheckedIo(session.disk(0).device)
        wait_for("reads and writes over RDMA", lambda: io.failure or io.done >= OPERATIONS)
        io.stop()
        expect(f"no read or write fails over RDMA: {io.failure}", io.failure is None)
        session.logout()
        self._goes_on("the change of portals")

    def _outlived_by_its_session(self, why, action):
        """The same for an end that is said beforehand: the initiator sees a pause, and nothing else."""
        before, taken_over = self._drops(), len(self._taken_over())
        self._interrupted_by(why, action)
        expect(f"{why} hands the session over", len(self._taken_over()) == taken_over + 1)
        expect(f"no connection is lost by {why}", self._drops() == before)

    @staticmethod
    def _taken_over():
        return re.findall(r"goes on at", journal())

    def is_restarted(self):
        for count in range(1, RESTARTS + 1):
            self._outlived_by_its_session(f"restart {count}", lambda: run("systemctl", "restart", UNIT))

    def is_upgraded(self):
        self._outlived_by_its_session("an upgrade", lambda: dpkg("--install", self._upgrade))
        wanted = run("dpkg-deb", "--field", self._upgrade, "Version").strip()
        found = run("dpkg-query", "--show", "--showformat=${Version}", "skiff-target")
        expect(f"the version is {wanted}, not {found}", found == wanted)
        expect("the configuration is the administrator's", TARGET in CONFIG.read_text(encoding="ascii"))

    def is_measured(self):
        with urllib.request.urlopen(METRICS, timeout=30) as answer:
            text = answer.read().decode()
        read = re.search(rf'^skiff_lun_commands_total{{[^}}]*operation="read"[^}}]*}} (\d+)', text, re.MULTILINE)
        expect(f"reads are counted: {text}", read and int(read[1]) > 0)

    def is_watched(self):
        restarts = int(show("NRestarts"))

        def hang():
            os.kill(main_pid(), signal.SIGSTOP)
            wait_for("systemd restarts a process that hangs",
                     lambda: int(show("NRestarts")) > restarts and show("SubState") == "running")

        self._interrupted_by("a hang", hang)
        expect("systemd tells why", "Watchdog timeout" in journal())

    def has_kept_all(self):
        self._io.stop()
        expect(f"all that was written is there: {self._io.failure}", self._io.failure is None)
        print(f"{self._io.done} reads and writes, {self._drops()} connections lost")
        self._session.logout()

    def is_stopped(self):
        run("systemctl", "stop", UNIT)
        facts = {name: show(name) for name in ("ActiveState", "Result", "ExecMainStatus")}
        expect(f"it has ended as it was asked to: {facts}",
               facts == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"})

    def is_purged(self):
        for file in (SECRET_FILE, *STATE.glob("*.img*")):
            file.unlink()
        run("rm", "-r", f"/run/systemd/system/{UNIT}.d")
        names = ("skiff-metrics", "skiff-target")
        theirs = [pathlib.Path(path) for path in run("dpkg", "--listfiles", *names).splitlines() if path.startswith("/")]
        theirs = [path for path in theirs if path.is_file()]
        dpkg("--purge", *names)
        left = files() - self._before | {str(path) for path in theirs if path.exists()}
        expect(f"nothing is left of it: {sorted(left)}", not left)
        run("systemctl", "daemon-reload")
        expect("systemd knows it no more", show("LoadState") == "not-found")

    def run(self, cases):
        try:
            for case in (self.is_installed, self.is_confined, self.is_configured, self.lets_in, self.is_reloaded,
                         self.serves_over_rdma, self.is_restarted, self.is_upgraded, self.is_measured, self.is_watched, self.has_kept_all,
                         self.is_stopped, self.is_purged):
                cases.run(case.__name__, case)
        finally:
            if self._io is not None:
                self._io.stop()


def main():
    cases = Cases("service")
    Service(*sys.argv[1:]).run(cases)
    status = cases.finish()
    if status != 0:
        print(journal())
    return status


if __name__ == "__main__":
    sys.exit(main())
