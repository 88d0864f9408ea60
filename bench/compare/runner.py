"""The driver of comparisons: the options, sections and goals of a program, and the virtual machine that some sections need.

A program has functions `section_*(machine, report)` that measure and judge, and a machine, which knows how to run what they
measure. It calls run().
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from report import Report

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "testing/interop"))
import peers  # pylint: disable=wrong-import-position

# The two ends of whatever is measured, where they are pinned.
TARGET_CORE = 0
LOAD_CORE = 1
QUICK_ROUNDS = 1
QUICK_SECONDS = 0.3
# The exit status of a program that could not measure, rather than missed a goal.
BROKEN = 2


class Failure(Exception):
    """A program that did not do what was asked of it."""


class Machine:
    """How long to run programs, and where; the programs are added by those who run them."""

    def __init__(self, options, directory):
        self.quick = options.quick
        self.seconds = QUICK_SECONDS if options.quick else options.seconds
        self.rounds = QUICK_ROUNDS if options.quick else options.rounds
        self.directory = pathlib.Path(directory)

    def output_of(self, *command):
        """What a program prints that runs for as long as one measurement."""
        words = [str(part) for part in command]
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                  timeout=20 * self.seconds + 60)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"{' '.join(words)}: no end\n{late.stderr or ''}{late.stdout or ''}") from None
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)}: status {done.returncode}\n{done.stderr}{done.stdout}")
        return done.stdout

    def iops_of_raw(self, program, rw, bs, depth, span, batch=False, spin=False):
        """What a bare pair of sockets does."""
        return json.loads(self.output_of(
            program, f"--rw={rw}", f"--bs={bs}", f"--depth={depth}", f"--runtime={self.seconds}", f"--batch={batch}",
            f"--spin={spin}", f"--server_core={TARGET_CORE}", f"--client_core={LOAD_CORE}", f"--span={span}"))["iops"]


@dataclasses.dataclass(frozen=True)
class Work:
    """What a load does: reads or writes of one size, so many at once."""

    rw: str
    kib: int
    depth: int

    def __str__(self):
        return f"{self.kib} KiB {self.rw}, depth {self.depth}"

    @property
    def direction(self):
        return "write" if "write" in self.rw else "read"


class Stopped:
    """Adds to a target that it only runs while it is measured: another one polls on the same core."""

    @contextlib.contextmanager
    def running(self):
        os.kill(self.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGSTOP)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
        super().stop()


def sections_of(names):
    """The functions `section_*` among what a module has, by the rest of their names."""
    return {name[len("section_"):]: function for name, function in list(names.items()) if name.startswith("section_")}


def parse_options(description, sections, seconds, rounds=5, guest=False, more=None):
    """The options of the command line, with those that `more` adds to the parser.

    Fails where there are not the two cores that all of this needs.
    """
    listed = "\n".join(f"  {name:13}{function.__doc__}" for name, function in sections.items())
    parser = argparse.ArgumentParser(description=f"{description}\nsections:\n{listed}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", action="append", choices=sections, help="only this one; may be given again")
    parser.add_argument("--quick", action="store_true", help="one short round; does not judge: the exit status is 0")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="of one measurement")
    parser.add_argument("--json", metavar="FILE", help="also write every sample and the goals there" + (
        "; those of sections in the virtual machine to FILE's name with the device's added" if guest else ""))
    parser.add_argument("--binaries", metavar="DIR", help="a bazel-bin to take, instead of building")
    if more is not None:
        more(parser)
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("needs two cores: one for each end")
    options.section = options.section or list(sections)
    return options


def programs(options, labels):
    """The paths of programs, which are built if there is no directory to take them from."""
    if not options.binaries:
        subprocess.run(["bazel", "build", "--config=opt", "--ui_event_filters=-info", "--noshow_progress", *labels],
                       cwd=ROOT, check=True)
    directory = pathlib.Path(options.binaries or ROOT / "bazel-bin").resolve()
    return [directory / label[2:].replace(":", "/") for label in labels]


def in_guest():
    return "SKIFF_VM_ADDRESS" in os.environ


def run_in_guest(program, sections, device, options, timeout):
    """Runs sections of a program of this directory there. Whether it succeeded."""
    command = [ROOT / "testing/vm/run", f"--device={device}", f"--timeout={timeout}"]
    arguments = [program, "--rounds", options.rounds, "--seconds", options.seconds,
                 "--binaries", pathlib.Path(options.binaries or ROOT / "bazel-bin").resolve()]
    for section in sections:
        arguments += ["--section", section]
    if options.quick:
        arguments.append("--quick")
    if options.json:
        file = pathlib.Path(options.json).resolve()
        command.append(f"--writable={file.parent}")
        arguments += ["--json", file.with_name(f"{file.stem}-{device}{file.suffix}")]
    return subprocess.run([str(part) for part in [*command, "--", *arguments]], check=False).returncode == 0


def run(description, sections, make_machine, *, guests=None, guest_seconds=0, errors=(), **defaults):
    """The exit status of a program: 0 if all goals are met, or none was judged (--quick).

    `make_machine`: of options and a directory. `guests`: sections that need the virtual machine, with the device that they
    are measured on. `errors`: of programs that did not do what was asked of them, besides those known here. `defaults`: of
    parse_options().
    """
    guests = {} if guests is None or in_guest() else guests
    options = parse_options(description, sections, guest=bool(guests), **defaults)
    try:
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            machine = make_machine(options, directory)
            return 0 if _measure(sections, machine, options, guests, guest_seconds) else 1
    except (Failure, peers.PeerError, subprocess.SubprocessError, *errors) as failure:
        print(f"{pathlib.Path(sys.argv[0]).name}: error: {failure}", file=sys.stderr)
        return BROKEN


def _measure(sections, machine, options, guests, guest_seconds):
    """Whether all is well."""
    report = Report(QUICK_ROUNDS if options.quick else options.rounds)
    here = [name for name in options.section if name not in guests]
    there = {}
    for name in options.section:
        if name in guests:
            there.setdefault(guests[name], []).append(name)
    for name in here:
        print(f"---- {name}: {sections[name].__doc__}", flush=True)
        sections[name](machine, report)
    met = not here or report.finish(options.json) or options.quick
    for device, names in there.items():
        met &= run_in_guest(pathlib.Path(sys.argv[0]).resolve(), names, device, options, guest_seconds)
    return met
