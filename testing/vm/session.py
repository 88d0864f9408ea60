"""Runs a command in guests: follows them, passes their output on, and finds out what hangs."""

import os
import pathlib
import select
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time

import machine
from machine import Failure, State

HERE = pathlib.Path(__file__).resolve().parent
OUT_OF_TIME = 124
BOOT_SECONDS = 120
# A guest that is alive answers at once; a debugger takes its time to read symbols.
DIAGNOSIS_SECONDS = 15
TRACE_SECONDS = 30
SYSRQ_SECONDS = 2
SYSRQ_LINES = 3000
# What the other host's command has for its end, once it was asked to.
TERMINATION_SECONDS = 15
REQUEST_INTERVAL = 0.02
POLL_INTERVAL = 0.25
CONSOLE_LINES = 100
# The statuses of a command that ended by itself, or by the signal that it gets from us in the end.
GOOD_STATUSES = (0, 128 + signal.SIGTERM)


class Session:
    """The guests of one call of testing/vm/run."""

    def __init__(self, settings, shared):
        self._settings = settings
        self._shared = shared
        self._started = time.monotonic()
        self._deadline = self._started + settings.timeout
        self._selector = selectors.DefaultSelector()
        # What has arrived of a line, and the messages that some code waits for.
        self._partial = {}
        self._heard = set()
        (shared / "exchange").mkdir()
        (shared / "requests").mkdir()
        (shared / "bin").mkdir()
        for name, copy in (("guest", "guest"), ("skiff-cable", "bin/skiff-cable")):
            shutil.copy(HERE / name, shared / copy)
        # A socket pair for each cable, with one end for each host.
        cables = [socket.socketpair(type=socket.SOCK_DGRAM) for _ in settings.devices] if settings.hosts > 1 else []
        self._guests = [
            machine.Guest(settings, number, shared, [ends[number - 1] for ends in cables])
            for number in range(1, settings.hosts + 1)
        ]

    def run(self, commands):
        """Runs a command in each guest. The exit status of the first one's."""
        try:
            for guest, command in zip(self._guests, commands):
                guest.write_task(command, self._variables(guest.number))
                self._start(guest)
            boot_deadline = min(self._deadline, time.monotonic() + BOOT_SECONDS)
            if not self._follow(lambda: all(guest.state == State.READY for guest in self._guests), boot_deadline):
                raise Failure(f"no guest after {time.monotonic() - self._started:.0f} s{self._diagnosis()}")
            for guest in self._guests:
                guest.state = State.RUNNING
                guest.tell("start")
            if not self._follow(lambda: self._guests[0].state == State.ENDED, self._deadline):
                text = self._diagnosis()
                self._say(f"error: the command did not end within {self._settings.timeout:.0f} s, and was killed{text}")
                return OUT_OF_TIME
            status = self._guests[0].status
            for guest in self._guests[1:]:
                status = self._finish(guest, status)
            self._drain()
            return status
        finally:
            for guest in self._guests:
                guest.kill()

    def _finish(self, guest, status):
        """Has another host's command end. Its exit status if that is the one to report."""
        if guest.state == State.RUNNING:
            guest.tell("terminate")
            if not self._follow(lambda: guest.state == State.ENDED, time.monotonic() + TERMINATION_SECONDS):
                text = self._diagnosis()
                self._say(f"error: host {guest.number} did not end within {TERMINATION_SECONDS} s of SIGTERM{text}")
                return status or OUT_OF_TIME
        return status or (0 if guest.status in GOOD_STATUSES else guest.status)

    def _variables(self, number):
        """What tells the command about its surroundings."""
        variables = {"SKIFF_VM_HOST": str(number), "SKIFF_VM_SHARED": f"{machine.SHARED_IN_GUEST}/exchange"}
        peer = 3 - number if self._settings.hosts > 1 else number
        for index, kind in enumerate(self._settings.devices):
            prefixes = [f"SKIFF_VM_{kind.upper()}_"] + (["SKIFF_VM_"] if index == 0 else [])
            for prefix in prefixes:
                variables[f"{prefix}ADDRESS"] = f"192.168.{77 + index}.{number}"
                variables[f"{prefix}PEER"] = f"192.168.{77 + index}.{peer}"
        return variables

    def _start(self, guest):
        release = (self._settings.kernel / "release").read_text(encoding="utf-8").strip()
        self._log(f"host {guest.number}: starting Linux {release}")
        guest.start()
        handlers = {
            "output": lambda data: self._pass_on(guest, "output", data),
            "errors": lambda data: self._pass_on(guest, "errors", data),
            "control": lambda data: self._on_control(guest, data),
            "console": guest.console.extend,
        }
        for name, handler in handlers.items():
            self._selector.register(guest.channels[name], selectors.EVENT_READ, handler)

    def _follow(self, condition, deadline):
        """Handles what happens until a condition holds. False if the time is up before that."""
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._settings.hosts > 1:
                self._answer_requests()
                left = min(left, REQUEST_INTERVAL)
            self._handle(left)
            for guest in self._guests:
                if guest.state != State.ENDED and guest.has_exited():
                    self._drain()
                    raise Failure(f"host {guest.number} went down by itself{self._last_words(guest)}")
        return True

    def _handle(self, seconds):
        """Passes on what has arrived. False if nothing has."""
        # With nothing to read, its process is all that can tell us something about a guest.
        events = self._selector.select(min(seconds, POLL_INTERVAL))
        for key, _ in events:
            try:
                data = key.fileobj.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                key.data(data)
            else:
                self._selector.unregister(key.fileobj)
        return bool(events)

    def _drain(self):
        """Handles what is on its way already, and writes the rest of lines that have no end."""
        while self._selector.get_map() and self._handle(0):
            pass
        for guest in self._guests[1:]:
            for name in ("output", "errors"):
                if self._partial.get((guest.number, name)):
                    self._pass_on(guest, name, b"\n")

    def _lines(self, guest, name, data):
        *lines, self._partial[guest.number, name] = (self._partial.get((guest.number, name), b"") + data).split(b"\n")
        return lines

    def _pass_on(self, guest, name, data):
        """The first host's output is the command's. The other's is for people, and marked."""
        if guest.number == 1:
            write_all(1 if name == "output" else 2, data)
        else:
            for line in self._lines(guest, name, data):
                write_all(2, f"[host {guest.number}] ".encode() + line + b"\n")

    def _on_control(self, guest, data):
        for line in self._lines(guest, "control", data):
            word, _, rest = line.decode(errors="replace").partition(" ")
            self._log(f"host {guest.number}: {word} {rest}")
            if word == "ready":
                guest.state = State.READY
            elif word == "exit":
                guest.status = int(rest)
                guest.state = State.ENDED
                self._report_end(guest)
            elif word == "failed":
                self._drain()
                raise Failure(f"host {guest.number} could not be set up: {rest}{self._last_words(guest)}")
            else:
                self._heard.add((guest.number, word))

    def _report_end(self, guest):
        """Says what the exit status of the command does not."""
        if guest.number > 1 and guest.status not in GOOD_STATUSES:
            self._say(f"the command of host {guest.number} ended with exit status {guest.status}")
        messages = read(guest.directory / "messages")
        if messages:
            self._say(f"the kernel of host {guest.number} had something to say:\n{messages}")

    def _answer_requests(self):
        """Pulls and plugs cables, as the guests' skiff-cable asks for."""
        for path in (self._shared / "requests").glob("*.request"):
            words = path.read_text(encoding="utf-8").split()
            self._log(f"cable: {' '.join(words)}")
            try:
                action, interface, hosts = words
                for guest in self._guests:
                    if hosts == "both" or int(hosts) == guest.number:
                        guest.qmp("set_link", name=machine.cable(int(interface.removeprefix("eth"))), up=action == "on")
                answer = "done"
            except (Failure, ValueError) as error:
                answer = f"failed {error}"
            path.unlink()
            written = path.with_suffix(".writing")
            written.write_text(answer + "\n", encoding="utf-8")
            written.rename(path.with_suffix(".answer"))

    def _diagnosis(self):
        """What the guests are doing, as text."""
        return "".join(self._diagnose(guest) for guest in self._guests if not guest.has_exited())

    def _diagnose(self, guest):
        if guest.state == State.RUNNING:
            guest.tell("diagnose")
            if self._wait_for(guest, "diagnosed", DIAGNOSIS_SECONDS):
                self._wait_for(guest, "traced", TRACE_SECONDS)
                parts = [read(guest.directory / name) for name in ("diagnosis", "backtraces")]
                return f"\n---- host {guest.number}\n" + "\n".join(part for part in parts if part) + "\n----"
        elif guest.state != State.BOOTING:
            return ""
        # Its processes do not answer: the kernel may. All messages; blocked tasks, processors, all tasks.
        for key in ("9", "w", "l", "t"):
            guest.sysrq(key)
            self._wait_for(guest, "nothing", SYSRQ_SECONDS)
        return self._last_words(guest, SYSRQ_LINES)

    def _wait_for(self, guest, word, seconds):
        try:
            return self._follow(lambda: (guest.number, word) in self._heard, time.monotonic() + seconds)
        except Failure:
            return False

    def _last_words(self, guest, limit=CONSOLE_LINES):
        lines = guest.console.decode(errors="replace").replace("\r", "").splitlines()[-limit:]
        text = "\n".join(lines) if lines else "(nothing)"
        qemu = f"\nQEMU: {guest.qemu_messages()}" if guest.has_exited() else ""
        return f"\n---- console of host {guest.number}\n{text}\n----{qemu}"

    def _log(self, message):
        if self._settings.verbose:
            self._say(f"{time.monotonic() - self._started:6.2f} s: {message}")

    @staticmethod
    def _say(message):
        write_all(2, f"testing/vm/run: {message}\n".encode(errors="replace"))


def write_all(descriptor, data):
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            # Whoever gave us this descriptor made it non-blocking.
            select.select([], [descriptor], [])


def read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def run(settings, commands):
    """Runs one command in each guest; the exit status for the user."""
    with tempfile.TemporaryDirectory(prefix="skiff-vm-") as shared:
        return Session(settings, pathlib.Path(shared)).run(commands)
