"""What an I/O takes of the processes of both ends: instructions in user space, system calls, copies of the payload."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import threading
import time

from runner import Failure, Work, peers

# What does a NIC's work, or stands in for one.
FABRIC = re.compile(r"/lib(fabric|ibverbs|rdmacm|efa|mlx\d|rxe|siw|psm\w*|infinipath)[.-]")
SECONDS = 120
SKIFF = "instructions of Skiff"
LIBFABRIC = "instructions of libfabric"
# A division of Skiff's by the names of functions, of which the first pattern decides. Those of general libraries'
# templates, where they are not inlined, do not say on whose behalf they run.
LAYERS = {f"{SKIFF}, {layer}": re.compile(pattern) for layer, pattern in (
    ("SCSI", r"skiff::scsi::"),
    ("datamovers", r"skiff::protocol::(Iser|Stream|RdmaPump|SendQueue|BlockPool)"),
    ("sessions and PDUs", r"skiff::protocol::"),
    ("registering memory", r"skiff::transport::(FabricDomain|FabricRegion|RegistrationCache)"),
    ("transport", r"skiff::transport::"),
    ("programs", r"skiff::tools::|main$"),
    ("general templates", r""))}
LOGIN = " logged in to "
WATCHES_SECONDS = 0.3  # Until perf counts.


def read_callgrind(path, program):
    """Instructions in a file of callgrind's (https://valgrind.org/docs/manual/cl-format.html), by whose they are.

    A program's are its own, and those of what it calls of general libraries, such as memcpy(); the fabric's alike.
    A program's are divided into LAYERS, too.
    """
    names = {}
    functions = {}

    def owner(value):
        number, _, name = value.partition(" ")
        name = names.setdefault(number, name)
        return SKIFF if name == str(program) else LIBFABRIC if FABRIC.search(name) else None

    counts = {SKIFF: 0, LIBFABRIC: 0, None: 0, **{layer: 0 for layer in LAYERS}}
    caller = callee = layer = None
    is_call = False
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key == "ob":
            caller = callee = owner(value)
        elif key in ("fn", "cfn"):
            number, _, name = value.partition(" ")
            if name:
                functions[number] = layer_of(name)
            if key == "fn":
                callee, layer = caller, functions[number]
        elif key == "cob":
            callee = owner(value)
        elif key == "calls":
            is_call = True
        elif line[:1] in tuple("+-*0123456789"):
            # A position, and a count: of the function itself or, behind "calls", of all that a call took.
            if not is_call or callee is None:
                count = int(line.split()[-1])
                counts[caller] += count
                if caller == SKIFF:
                    counts[layer] += count
            is_call, callee = False, caller
    return counts


def layer_of(function):
    """The layer of a function by its demangled name, which may be "type namespace::Class<types>::name(types) const"."""
    name, replaced = function.replace("(anonymous namespace)::", ""), 1
    while replaced:
        name, replaced = re.subn(r"<[^<>]*>", "", name)
    name = name.partition("(")[0].rpartition(" ")[2]
    return next(layer for layer, pattern in LAYERS.items() if pattern.match(name))


def read_functions(path, namespace):
    """Instructions in a file of callgrind's that functions of a C++ namespace took themselves, inlined code included."""
    names = {}
    count = 0
    counts = is_call = False
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key in ("fn", "cfn"):
            number, _, name = value.partition(" ")
            name = names.setdefault(number, name)
            if key == "fn":
                # "type namespace::function(arguments)", at the most.
                counts = name.partition("(")[0].rpartition(" ")[2].startswith(namespace)
        elif key == "calls":
            is_call = True
        elif line[:1] in tuple("+-*0123456789"):
            # A position, and a count: of the function itself or, behind "calls", of all that a call took.
            if counts and not is_call:
                count += int(line.split()[-1])
            is_call = False
    return count


class Ends:
    """Skiff's target, with one LUN for all portals, and Skiff's initiator, both with the same flags."""

    def __init__(self, machine, portals, flags):
        self._machine = machine
        self._flags = flags
        self._portals = portals  # By names, in skiffd's words.
        self._urls = {}

    @contextlib.contextmanager
    def serving(self, *wrapper, core=None):
        """The process of the target; its URLs are there, too."""
        listen = [word for portal in self._portals.values() for word in ("--listen", portal)]
        with open(self._machine.directory / "skiffd.log", "wb") as log:
            process = peers.spawn([*wrapper, self._machine.skiffd, "--open", *listen, "--target", peers.TARGET_NAME, "--lun",
                                   self._machine.lun, *self._flags], core=core, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            bound = re.findall(r"portal=(\w+)://([^?\s]+)(?:\?(\S+))?", process.stdout.readline())
            if len(bound) != len(self._portals):
                raise Failure(f"skiffd is not ready: {self._log()}")
            for name, (scheme, portal, rest) in zip(self._portals, bound):
                self._urls[name] = f"iscsi://{portal}/{peers.TARGET_NAME}/0" if scheme == "tcp" else (
                    f"iser://{portal}/{peers.TARGET_NAME}/0?transport={scheme}&{rest}")
            yield process
        finally:
            peers.stop(process, SECONDS)

    def _log(self):
        return (self._machine.directory / "skiffd.log").read_text(encoding="utf-8")

    def load(self, end, work, *wrapper, options=(), core=None):
        """What `skiff perf` reports of work through a portal."""
        command = [*wrapper, self._machine.skiff, "perf", self._urls[end], f"--rw={work.rw}", f"--bs={work.kib}k",
                   f"--iodepth={work.depth}", "--json", *self._flags, *options]
        with peers.spawn(command, core=core, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True) as process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        if process.returncode != 0:
            raise Failure(f"{' '.join(map(str, command))}: status {process.returncode}\n{errors}{output}")
        report = json.loads(output)
        model = "iSCSI" if self._urls[end].startswith("iscsi:") else "iSER"
        if report["data_model"] != model:
            raise Failure(f"skiff perf did not run over {model}: {output}")
        return report

    def _count(self, end, work, commands, options):
        """The instructions of a whole run: initiator's, target's."""
        files = [self._machine.directory / f"{role}.callgrind" for role in ("initiator", "target")]
        callgrind = ("valgrind", "-q", "--tool=callgrind", "--fair-sched=yes")
        with self.serving(*callgrind, f"--callgrind-out-file={files[1]}"):
            self.load(end, work, *callgrind, f"--callgrind-out-file={files[0]}",
                      options=[f"--size={commands * work.kib}k", *options])
        return [read_callgrind(file, program)
                for file, program in zip(files, (self._machine.skiff, self._machine.skiffd))]

    def instructions(self, end, work, commands, options=()):
        """The instructions of an I/O: (initiator's, target's). The difference of two runs: without logging in."""
        few, many = (self._count(end, work, count, options) for count in (commands // 4, commands))
        return {whose: [(more[whose] - less[whose]) / (commands - commands // 4) for less, more in zip(few, many)]
                for whose in (SKIFF, *LAYERS, LIBFABRIC)}

    def calls_and_copies(self, end, work, seconds):
        """The system calls of an I/O, (initiator's, target's), and the bytes of the payload that were copied."""
        with self.serving() as process:
            self.load(end, Work("write", 1024, 1))  # Written once, as it is when at work.
            idle, few = self._traced(process, end, work, [f"--size={work.depth * work.kib}k"])
            busy, many = self._traced(process, end, work, [f"--runtime={seconds}s"])
            ios = busy[work.direction]["ios"] - idle[work.direction]["ios"]
            copied = (_copied(busy) - _copied(idle)) / ios
            return {"system calls": [(more - less) / ios for more, less in zip(many, few)],
                    "bytes copied": [copied, self._copied_by_target(process, end, work, seconds)]}

    def _traced(self, process, end, work, options):
        """What `skiff perf` reports, and the system calls of both ends: its own, the target's."""
        files = [self._machine.directory / f"{role}.calls" for role in ("initiator", "target")]
        perf = [("perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o", file) for file in files]
        watching = peers.spawn([*perf[1], "-p", process.pid], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(WATCHES_SECONDS)
            report = self.load(end, work, *perf[0], "--", options=options)
            watching.send_signal(signal.SIGINT)
            watching.wait(SECONDS)
        finally:
            peers.stop(watching)
        return report, [_counted(file) for file in files]

    def _copied_by_target(self, process, end, work, seconds):
        """The bytes of an I/O that the target copied, as it says itself of a session that is at work."""
        logins = self._log().count(LOGIN)

        def ask():
            deadline = time.monotonic() + SECONDS
            while self._log().count(LOGIN) == logins and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(seconds / 2)
            process.send_signal(signal.SIGUSR1)

        asking = threading.Thread(target=ask)
        asking.start()
        self.load(end, work, options=[f"--runtime={seconds}s"])
        asking.join()
        found = re.findall(r"(\d+) PDUs in, .* (\d+) payload bytes copied", self._log())
        if not found:
            raise Failure(f"skiffd does not say what it copied: {self._log()}")
        # Each command is a PDU; some more are those of logging in.
        return int(found[-1][1]) / int(found[-1][0])


def _copied(report):
    return sum(session["counters"]["payload_bytes_copied"] for session in report["sessions"])


def _counted(file):
    lines = [line.split(",") for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines()]
    for columns in lines:
        if len(columns) > 2 and "sys_enter" in columns[2] and columns[0].isdigit():
            return int(columns[0])
    raise Failure(f"perf does not count system calls, which takes root or perf_event_paranoid: {lines}")
