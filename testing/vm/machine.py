"""A guest under QEMU: what it is told to do, its process, and its channels."""

import dataclasses
import enum
import json
import os
import pathlib
import shlex
import socket
import subprocess

# Where the guest sees the directory that is shared with it.
SHARED_IN_GUEST = "/run/skiff-vm"
# A guest has a virtio port for each of the first three.
CHANNELS = ("output", "errors", "control", "console", "qmp")
MTU = 9000
QMP_SECONDS = 10
KERNEL_ARGUMENTS = (
    "console=ttyS0",
    # The console is slow, and the kernel keeps all messages anyway.
    "quiet",
    "panic=-1",
    # After an oops, the process and the locks that it held are gone: a test would hang without saying why.
    "oops=panic",
    "sysrq_always_enabled",
    "mitigations=off",
    "nokaslr",
    # QEMU translates the code of a program once for each address where it finds it.
    "norandmaps",
    "net.ifnames=0",
    "audit=0",
    "apparmor=0",
    "rcupdate.rcu_expedited=1",
    "cryptomgr.notests",
    "no_timer_check",
    "tsc=reliable",
    "random.trust_cpu=on",
)
# What a guest with systemd does without: nobody logs in, and all devices that it starts with are there already. Each of
# these takes seconds.
MASKED_UNITS = ("e2scrub_reap.service", "getty.target", "systemd-binfmt.service", "systemd-logind.service",
                "systemd-udev-trigger.service", "systemd-update-utmp.service")
# Without what emulation makes slow, where programs take another way if the processor does not have it. Soft-RoCE moves
# four times as much with these left out, as it computes a CRC of each packet and copies it.
CPU = ",".join((
    "max",
    # "rep movsb" goes byte by byte, and Linux copies with it where it is called fast.
    "-erms",
    # One instruction of CRC-32 by carry-less multiplication is a loop over 64 bits.
    "-pclmulqdq",
    # Page tables of five levels: each miss of the TLB is a walk through all of them.
    "-la57",
))  # yapf: disable
# Bash refuses to set these.
READ_ONLY_VARIABLES = {"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"}


class Failure(Exception):
    """The guest could not run the command; says what to do, if anything."""


class State(enum.Enum):
    """How far a guest is."""

    BOOTING = enum.auto()
    READY = enum.auto()
    RUNNING = enum.auto()
    ENDED = enum.auto()


@dataclasses.dataclass
class Settings:
    """What the user asked for."""

    kernel: pathlib.Path
    devices: list
    hosts: int
    memory: str
    cpus: int
    writable: list
    timeout: float
    verbose: bool
    debian: pathlib.Path | None  # The image whose files the guest has; None: it has this machine's.


def cable(index):
    """The name that QEMU knows the cable of an interface by."""
    return f"cable{index}"


class Guest:
    """One guest. `cables` are this end's sockets, one for each interface. The channels are for the caller to read."""

    def __init__(self, settings, number, shared, cables):
        self.number = number
        self.state = State.BOOTING
        # The exit status of its command, once it has ended.
        self.status = None
        self.directory = shared / f"host{number}"
        self.console = bytearray()
        self.channels = {}
        self._settings = settings
        self._shared = shared
        self._cables = cables
        self._theirs = {}
        self._process = None
        self._qemu_log = self.directory / "qemu.log"
        self.directory.mkdir()
        for name in CHANNELS:
            self.channels[name], self._theirs[name] = socket.socketpair()

    def write_task(self, command, variables):
        """Leaves the command, with this process's directory and environment, where the guest looks for it."""
        settings = self._settings
        config = [
            f"HOST_COUNT={settings.hosts}",
            f"DEVICE_KINDS={shlex.quote(' '.join(settings.devices))}",
            f"KERNEL_MODULES={shlex.quote(str(settings.kernel / 'lib' / 'modules'))}",
            f"WRITABLE=({' '.join(shlex.quote(str(path)) for path in settings.writable)})",
        ]
        (self.directory / "config").write_text("\n".join(config) + "\n", encoding="utf-8")
        lines = [
            f"export {name}={shlex.quote(value)}"
            for name, value in {**os.environ, **variables}.items()
            if name.isidentifier() and name not in READ_ONLY_VARIABLES
        ]
        lines.append(f'export PATH="${{PATH}}:{SHARED_IN_GUEST}/bin"')
        lines.append(f"cd {shlex.quote(os.getcwd())} || exit 125")
        lines.append(f"exec {shlex.join(command)}")
        text = "\n".join(lines) + "\n"
        (self.directory / "command").write_text(text, encoding="utf-8", errors="surrogateescape")

    def start(self):
        theirs = [*self._theirs.values(), *self._cables]
        with open(self._qemu_log, "wb") as log:
            self._process = subprocess.Popen(
                # QEMU does not outlive this program, however that ends.
                ["setpriv", "--pdeathsig", "KILL", *self._qemu_command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[descriptor.fileno() for descriptor in theirs],
            )
        for descriptor in theirs:
            descriptor.close()
        self.qmp("qmp_capabilities")

    def _qemu_command(self):
        settings = self._settings
        command = ["qemu-system-x86_64", "-name", f"skiff-host{self.number}", "-nodefaults", "-no-user-config"]
        command += ["-display", "none", "-no-reboot", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", CPU]
        command += ["-smp", str(settings.cpus), "-m", settings.memory]
        command += ["-kernel", str(settings.kernel / "vmlinux"), "-initrd", str(settings.kernel / "initramfs")]
        files = ["skiff.debian", *(f"systemd.mask={unit}" for unit in MASKED_UNITS)] if settings.debian else []
        command += ["-append", " ".join((*KERNEL_ARGUMENTS, *files, f"skiff.host={self.number}"))]
        if settings.debian:
            command += ["-drive", f"if=none,id=debian,format=raw,readonly=on,file={escape(settings.debian)}"]
            command += ["-device", "virtio-blk-pci,drive=debian"]
            command += share("modules", settings.kernel / "lib" / "modules", read_only=True)
        else:
            command += share("root", pathlib.Path("/"), read_only=True)
        command += share("shared", self._shared)
        for index, path in enumerate(settings.writable):
            command += share(f"writable{index}", path)
        for name, theirs in self._theirs.items():
            command += ["-chardev", f"socket,id={name},fd={theirs.fileno()}"]
        command += ["-serial", "chardev:console", "-mon", "chardev=qmp,mode=control"]
        command += ["-device", "virtio-serial-pci,max_ports=4"]
        for index, name in enumerate(CHANNELS[:3], start=1):
            command += ["-device", f"virtserialport,nr={index},chardev={name}"]
        for index, end in enumerate(self._cables):
            command += ["-netdev", f"dgram,id={cable(index)},local.type=fd,local.str={end.fileno()}"]
            mac = f"52:54:00:77:{index:02x}:{self.number:02x}"
            command += ["-device", f"virtio-net-pci,netdev={cable(index)},mac={mac},host_mtu={MTU},romfile="]
        return command

    def qmp(self, action, **arguments):
        """Has QEMU execute a command, and waits for it."""
        channel = self.channels["qmp"]
        channel.settimeout(QMP_SECONDS)
        try:
            channel.sendall(json.dumps({"execute": action, "arguments": arguments}).encode() + b"\n")
            received = b""
            while True:
                data = channel.recv(65536)
                if not data:
                    raise Failure(f"QEMU ended: {self.qemu_messages()}")
                received += data
                *lines, received = received.split(b"\n")
                for reply in map(json.loads, lines):
                    if "error" in reply:
                        raise Failure(f"QEMU refused {action}: {reply['error'].get('desc')}")
                    if "return" in reply:
                        return
        except TimeoutError as error:
            raise Failure(f"QEMU did not answer {action} within {QMP_SECONDS} s") from error
        except OSError as error:
            raise Failure(f"QEMU ended: {self.qemu_messages()}") from error

    def tell(self, message):
        try:
            self.channels["control"].sendall(message.encode() + b"\n")
        except OSError as error:
            raise Failure(f"QEMU ended: {self.qemu_messages()}") from error

    def sysrq(self, key):
        """Has the kernel write about its state to the console, also if no process of the guest runs any more."""
        self.qmp("chardev-send-break", id="console")
        self.channels["console"].sendall(key.encode())

    def qemu_messages(self):
        return self._qemu_log.read_text(encoding="utf-8", errors="replace").strip() or "it left no message"

    def has_exited(self):
        return self._process.poll() is not None

    def kill(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def escape(path):
    """QEMU separates options with commas, and wants those in values doubled."""
    return str(path).replace(",", ",,")


def share(tag, path, read_only=False):
    """The arguments that show a directory of this machine to the guest."""
    options = f"local,id={tag},mount_tag={tag},path={escape(path)},security_model=none,multidevs=remap"
    return ["-virtfs", options + (",readonly=on" if read_only else "")]
