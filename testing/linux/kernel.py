"""Linux's own iSCSI initiator in a guest: open-iscsi's programs, and the disks that the kernel makes of logical units."""

import contextlib
import os
import pathlib
import re
import subprocess
import time

LOCK_DIRECTORY = "/run/lock/iscsi"
NAME_FILE = "/etc/iscsi/initiatorname.iscsi"
INITIATOR_NAME = "iqn.2026-11.org.example.skiff:linux"
MODULES = ["sd_mod", "sg", "ext4", "xfs", "iscsi_tcp"]
DEBUG_ERROR_HANDLING = "/sys/module/libiscsi/parameters/debug_libiscsi_eh"
SECONDS = 60


class Failure(Exception):
    """A program that did not do what was asked of it."""


def run(*command, seconds=SECONDS, check=True, text=None):
    """The output of a command, errors among it."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(
            command, input=text, stdin=None if text is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(command)}: not done after {seconds} s; it said {error.stdout}") from None
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit status {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def wait_for(what, condition, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s for this: {what}")
        time.sleep(0.05)


def expect(what, condition):
    if not condition:
        raise Failure(f"not so: {what}")


def data_keys(immediate, initial_r2t, unsolicited):
    """What a login agrees on with a peer that offers the first two.

    Skiff's offer is ImmediateData=Yes and InitialR2T=No, but over iSER InitialR2T=Yes unless it is told to take, or send,
    unsolicited Data-Out PDUs (docs/iser.md). ImmediateData is Yes where both sides say Yes, InitialR2T where one does
    (RFC 7143 sections 13.10 and 13.11).
    """
    return {"InitialR2T": initial_r2t if unsolicited else "Yes", "ImmediateData": immediate}


@contextlib.contextmanager
def iscsid():
    """The daemon of open-iscsi, which logs in again when a connection is lost."""
    os.makedirs(LOCK_DIRECTORY, exist_ok=True)
    pathlib.Path(NAME_FILE).write_text(f"InitiatorName={INITIATOR_NAME}\n", encoding="ascii")
    run("modprobe", "--all", *MODULES)
    # Commands of 4 MiB, and not of 512 KiB at most.
    run("modprobe", "ib_iser", "max_sectors=8192")
    with subprocess.Popen(
        ["iscsid", "--foreground"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.kill()


class Session:
    """What open-iscsi knows of a target at one portal, through the interface "iser" or "default", which is TCP."""

    def __init__(self, interface, portal, target):
        self._interface = interface
        self._portal = portal
        self._target = target
        self._host = None

    def discover(self):
        self._check_discovered(run("iscsiadm", "--mode=discovery", *self._discovery()))

    def discover_with(self, prefix, settings):
        """With settings of open-iscsi's, whose names all begin so."""
        command = ["iscsiadm", "--mode=discoverydb", *self._discovery()]
        run(*command, "--op=new")
        for name, value in settings.items():
            run(*command, "--op=update", f"--name={prefix}.{name}", f"--value={value}")
        self._check_discovered(run(*command, "--discover"))

    def _discovery(self):
        return "--type=sendtargets", f"--portal={self._portal}", f"--interface={self._interface}"

    def _check_discovered(self, found):
        expect(f"{self._target} is at {self._portal}: {found}",
               re.search(rf"^{re.escape(self._portal)},1 {re.escape(self._target)}$", found, re.MULTILINE))

    def _node(self, *options, **more):
        return run("iscsiadm", "--mode=node", f"--targetname={self._target}", f"--portal={self._portal}", *options, **more)

    def set(self, key, value):
        """From the next login on."""
        self._node("--op=update", f"--name={key}", f"--value={value}")

    def login(self):
        self._node("--login")

    def logout(self):
        self._node("--logout")

    def details(self):
        """What `iscsiadm` says of the session, negotiated keys among it."""
        of_all = re.split(r"^(?=Target: )", run("iscsiadm", "--mode=session", "--print=3"), flags=re.MULTILINE)
        return "".join(details for details in of_all if details.startswith(f"Target: {self._target} "))

    def task_management(self):
        """How many functions were sent on the connection, and how many were answered."""
        of_all = run("iscsiadm", "--mode=session", "--stats")
        ours = re.search(rf"target: {re.escape(self._target)}\b.*?tmfcmd_pdus: (\d+).*?tmfrsp_pdus: (\d+)", of_all, re.DOTALL)
        return int(ours[1]), int(ours[2])

    def disk(self, lun):
        """The disk of a logical unit, once it is there."""
        pattern = re.compile(rf"^\s*scsi\d+ Channel 00 Id 0 Lun: {lun}\n\s*Attached scsi disk (\w+)\s+State: running$",
                             re.MULTILINE)
        found = wait_for(f"a disk for LUN {lun}", lambda: pattern.search(self.details()))
        wait_for(f"/dev/{found[1]}", pathlib.Path(f"/dev/{found[1]}").exists)
        return Disk(found[1])


class Disk:
    """A disk of the kernel's."""

    def __init__(self, name):
        self.name = name
        self.device = f"/dev/{name}"

    def attribute(self, name, value=None):
        path = pathlib.Path(f"/sys/block/{self.name}/{name}")
        if value is not None:
            path.write_text(f"{value}\n", encoding="ascii")
        return path.read_text(encoding="ascii").strip()

    @property
    def size(self):
        return 512 * int(self.attribute("size"))

    @property
    def errors(self):
        """Commands that ended with another status than GOOD, or with none; the kernel may have repeated them."""
        return int(self.attribute("device/ioerr_cnt"), 16)

    @property
    def ended(self):
        """Reads and writes that are done."""
        counts = self.attribute("stat").split()
        return int(counts[0]) + int(counts[4])

    def fio_command(self, *options):
        """Writes and reads back what it wrote, past the page cache.

        Left alone, fio checks what it wrote to a block even while it writes there again.
        """
        return ["fio", "--name=verify", f"--filename={self.device}", "--ioengine=libaio", "--direct=1", "--rw=randrw",
                "--serialize_overlap=1", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64", "--randrepeat=0",
                *options]

    def fio(self, *options, seconds=SECONDS):
        run(*self.fio_command(*options), seconds=seconds)


@contextlib.contextmanager
def mounted(device, directory):
    os.makedirs(directory, exist_ok=True)
    run("mount", device, directory)
    try:
        yield pathlib.Path(directory)
    finally:
        run("umount", directory)


class KernelLog:
    """What the kernel says from now on."""

    def __init__(self):
        self._mark = f"from here on: {time.monotonic()}\n"
        pathlib.Path("/dev/kmsg").write_text(self._mark, encoding="ascii")

    def lines(self):
        return run("dmesg").split(self._mark)[1].splitlines()

    def matching(self, pattern):
        return [line for line in self.lines() if re.search(pattern, line)]


class SlowDevice:
    """A block device in memory whose I/O waits for as long as it is held."""

    device = "/dev/mapper/skiff-slow"

    def __init__(self, mib):
        run("modprobe", "brd", "rd_nr=1", f"rd_size={mib << 10}")
        run("modprobe", "dm_mod")
        self._dmsetup("create", text=f"0 {mib << 11} linear /dev/ram0 0\n")

    @staticmethod
    def _dmsetup(what, *options, text=None):
        # The guest has no udev to make the node.
        run("env", "DM_DISABLE_UDEV=1", "dmsetup", what, "skiff-slow", *options, text=text)

    def hold(self):
        self._dmsetup("suspend", "--nolockfs")

    def release(self):
        self._dmsetup("resume")

    @contextlib.contextmanager
    def held(self):
        self.hold()
        try:
            yield
        finally:
            self.release()
