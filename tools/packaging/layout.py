"""Where the files of an installation belong: what tools/install and tools/package share."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

import manpages

HERE = pathlib.Path(__file__).absolute().parent
ROOT = HERE.parents[1]
HEADERS = ROOT / "tools/library/include/skiff"
VERSION = re.compile(r'^#define SKIFF_VERSION "([\d.]+)"$', re.MULTILINE)
TRANSPORTS = ("verbs", "libfabric")
# What the library needs beside the C library, as it is linked here (Debian has no static library of ISA-L).
LIBRARIES = "-lstdc++ -lm -lcrypto -lisal -luring -pthread"
# What authors of transports include, by the paths that they include. docs/transport-author-guide.md says what is in them.
AUTHOR_HEADERS = (
    "bench/transport/linked_transport.h",
    "testing/transport_conformance/conformance_main.h",
    "testing/transport_conformance/epoll_world.h",
    "testing/transport_conformance/transport_factory.h",
    "tools/library/own_transport.h",
    "transport/address.h",
    "transport/byte_stream.h",
    "transport/capabilities.h",
    "transport/memory.h",
    "transport/net/scoped_fd.h",
    "transport/rdma_endpoint.h",
    "transport/reactor/epoll_reactor.h",
    "transport/reactor/reactor.h",
    "transport/registry.h",
    "transport/transport.h",
)
# Each is an archive, a file for pkg-config, and a component for CMake.
AUTHOR_PARTS = ("transport", "conformance", "bench")
# The skeleton of a transport, and how it is built with what is installed.
EXAMPLES = ROOT / "docs/examples"
# Grafana's dashboard, and alerts for Prometheus.
METRICS = ("grafana/skiff.json", "prometheus/skiff.rules.yml")
BENCH = ROOT / "bench/skiff_bench/skiff_bench.py"


class InstallError(Exception):
    """For people."""


@dataclasses.dataclass
class Built:
    """What Bazel has made."""
    shared: pathlib.Path
    archive: pathlib.Path
    skiff: pathlib.Path
    skiffd: pathlib.Path
    conformance: pathlib.Path
    benches: pathlib.Path
    nbdkit_plugin: pathlib.Path
    libiscsi: pathlib.Path
    metrics: pathlib.Path
    management: pathlib.Path
    skiffctl: pathlib.Path
    author: list  # The archives of AUTHOR_PARTS.

    # Files of packages, in the order of the members.
    FILES = ("tools/packaging/libskiff.so.0", "tools/packaging/libskiff.a", "tools/skiff/skiff", "tools/skiffd/skiffd",
             "testing/transport_conformance/conformance", "bench/skiff_bench/skiff_benches",
             "tools/clients/nbdkit/nbdkit-skiff-plugin.so", "tools/clients/libiscsi/libiscsi.so.7",
             "tools/metrics/libskiff_metrics.so", "tools/management/libskiff_management.so", "tools/skiffctl/skiffctl")
    AUTHOR_FILES = tuple(f"tools/packaging/libskiff_{part}.a" for part in AUTHOR_PARTS)
    TARGETS = tuple(f"//{':'.join(file.rsplit('/', 1))}" for file in FILES + AUTHOR_FILES)

    @classmethod
    def below(cls, folder):
        return cls(*(pathlib.Path(folder, file) for file in cls.FILES),
                   author=[pathlib.Path(folder, file) for file in cls.AUTHOR_FILES])

    @classmethod
    def chosen(cls, folder, without):
        """What --use names, or else what is built."""
        if folder and without:
            raise InstallError("--without is for a build: --use takes what is built already")
        return cls.below(folder) if folder else build(without)


def build(without=()):
    """Builds what is shipped, and says where it is."""
    flags = ["--config=opt", *(f"--define=skiff_without_{transport}=true" for transport in sorted(without))]
    command = ["bazel", "build", "--noshow_progress", "--show_result=0", *flags, *Built.TARGETS]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise InstallError("the build failed: see its messages above")
    folder = subprocess.run(["bazel", "info", *flags, "bazel-bin"], cwd=ROOT, check=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    return Built.below(folder)


def version():
    match = VERSION.search((HEADERS / "common.h").read_text(encoding="utf-8"))
    if not match:
        raise InstallError(f"{HEADERS}/common.h has no SKIFF_VERSION")
    return match[1]


def check_folder(option, folder):
    if not re.fullmatch(r"/[\w.+~/-]*", folder) or ".." in folder.split("/"):
        raise InstallError(f"{option} '{folder}' has to be an absolute path, of letters, digits and any of . + ~ / - _")
    return folder.rstrip("/")


class Installation:
    """Files below `destdir`, which is the root of the file system that they are for."""

    def __init__(self, prefix, destdir="", libdir=None):
        self.prefix = check_folder("--prefix", prefix)
        self.libdir = check_folder("--libdir", libdir) if libdir else f"{self.prefix}/lib"
        self.destdir = os.path.abspath(destdir) if destdir else ""
        self.version = version()

    def path(self, folder, name=""):
        path = pathlib.Path(f"{self.destdir}{folder}", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()  # A program that runs keeps its file.
        return path

    def copy(self, source, folder, name=None, mode=0o644):
        if not source.is_file():
            raise InstallError(f"{source} is not there: build it first")
        path = self.path(folder, name or source.name)
        shutil.copyfile(source, path)
        path.chmod(mode)
        return path

    def write(self, text, folder, name):
        path = self.path(folder, name)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        return path

    def link(self, target, folder, name):
        self.path(folder, name).symlink_to(target)

    def fill(self, template):
        """A template with its @NAMES@ replaced."""
        values = {"PREFIX": self.prefix or "/", "LIBDIR": self.libdir, "VERSION": self.version, "LIBRARIES": LIBRARIES,
                  "LIBDIR_FROM_CMAKE": "../..", "PREFIX_FROM_LIBDIR": os.path.relpath(self.prefix or "/", self.libdir)}
        text = (HERE / template).read_text(encoding="utf-8")
        return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)

    def install_library(self, built):
        strip(self.copy(built.shared, self.libdir, "libskiff.so.0"), "--strip-unneeded")
        self.link("libskiff.so.0", self.libdir, "libskiff.so")
        self.copy(built.archive, self.libdir, "libskiff.a")
        for header in sorted([*HEADERS.glob("*.h"), *HEADERS.glob("*.hpp")]):
            self.copy(header, f"{self.prefix}/include/skiff")
        for name in ("skiff.pc", "skiff-static.pc"):
            self.write(self.fill(f"{name}.in"), f"{self.libdir}/pkgconfig", name)
        for name in ("SkiffConfig.cmake", "SkiffConfigVersion.cmake"):
            self.write(self.fill(f"{name}.in"), f"{self.libdir}/cmake/Skiff", name)

    def install_programs(self, built):
        for program, folder, name in ((built.skiff, "bin", "skiff"), (built.skiffd, "sbin", "skiffd"),
                                      (built.skiffctl, "sbin", "skiffctl"),
                                      (built.conformance, "bin", "skiff-conformance"),
                                      (built.benches, "lib/skiff", "skiff-benches")):
            strip(self.copy(program, f"{self.prefix}/{folder}", name, 0o755), "--strip-unneeded")
        self.copy(ROOT / "tools/skiffctl/completion.bash", f"{self.prefix}/share/bash-completion/completions", "skiffctl")
        self.copy(ROOT / "tools/management/management.proto", f"{self.prefix}/share/skiff")
        # The system's Python, whatever else PATH has.
        script = BENCH.read_text(encoding="utf-8").replace("#!/usr/bin/env python3", "#!/usr/bin/python3", 1)
        self.write(script, f"{self.prefix}/bin", "skiff-bench").chmod(0o755)

    def install_for_authors(self, built):
        for archive in built.author:
            self.copy(archive, self.libdir)
        for header in AUTHOR_HEADERS:
            self.copy(ROOT / header, f"{self.prefix}/include/skiff/author", header)
        for part in AUTHOR_PARTS:
            self.write(self.fill(f"skiff-{part}.pc.in"), f"{self.libdir}/pkgconfig", f"skiff-{part}.pc")
            self.write(self.fill(f"SkiffPart-{part}.cmake.in"), f"{self.libdir}/cmake/Skiff", f"SkiffPart-{part}.cmake")
        for example in sorted([*EXAMPLES.glob("inproc_*.cc"), *EXAMPLES.glob("inproc_*.h"), EXAMPLES / "inproc/CMakeLists.txt",
                               EXAMPLES / "inproc/Makefile"]):
            self.copy(example, f"{self.prefix}/share/doc/skiff-transport-dev/examples")

    def install_modules(self, built):
        """What skiffd loads when it is told to: by its RUNPATH."""
        for module in (built.metrics, built.management):
            strip(self.copy(module, f"{self.libdir}/skiff"), "--strip-unneeded")
        for file in METRICS:
            self.copy(ROOT / "tools/metrics" / file, f"{self.prefix}/share/skiff", file)

    def install_clients(self, built):
        """What other programs load. It finds the library one folder above."""
        for plugin in (built.nbdkit_plugin, built.libiscsi):
            strip(self.copy(plugin, f"{self.libdir}/skiff"), "--strip-unneeded")

    def install_manual(self, built):
        pages = manpages.make(HEADERS, ROOT / "docs", self.version)
        for program, name, title in ((built.conformance, "skiff-conformance", "the conformance suite for transports of Skiff"),
                                     (BENCH, "skiff-bench", "measure transports and protocol of Skiff, and compare runs")):
            pages[f"{name}.1"] = manpages.of_program(program, name, title, self.version)
        for name, page in pages.items():
            folder = f"{self.prefix}/share/man/man{name[-1]}"
            if isinstance(page, manpages.Link):
                self.link(page.target, folder, name)
            else:
                self.write(page, folder, name)

    def install(self, built):
        self.install_library(built)
        self.install_programs(built)
        self.install_for_authors(built)
        self.install_modules(built)
        self.install_clients(built)
        self.install_manual(built)
        self.copy(ROOT / "LICENSE", f"{self.prefix}/share/doc/skiff")


def strip(path, how):
    result = subprocess.run(["strip", how, "--remove-section=.comment", path], check=False, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise InstallError(f"strip {path}: {result.stderr.strip()}")
