#!/usr/bin/env python3
"""Installs Skiff into an empty prefix, and builds and runs other people's programs against it.

Usage: installed_test.py BUILT VARIANT... [-- TEST...]

BUILT is a folder as bazel-bin is, with what tools/install installs. A VARIANT is a library without some transports.
"""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path.cwd()
HOSTS = ROOT / "testing/installed/hosts"
SECONDS = 120
C = ("cc", "-std=c11", "-D_GNU_SOURCE", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1")
CXX = ("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1")
DECLARES = re.compile(r"\bSKIFF_API\b[^;]*?\b(skiff_\w+)\s*\(")
TRANSPORT_LIBRARIES = {"verbs": ("libibverbs", "librdmacm"), "libfabric": ("libfabric",)}
# Bytes. The library has objects that it never destroys, as threads may use them while a process exits: so much for each load.
LEFT_BY_ONE_LOAD = 1024
# What the shared library may need of the system.
NEEDED = re.compile(r"(libabsl_\w+|libcrypto|libisal|liburing|libstdc\+\+|libm|libgcc_s|libc|ld-linux-x86-64)\.so\.\d+")

built = None
variants = []


def run(*command, cwd=None, check=True, **environment):
    """A command's output; fails the test, with that, if the command fails."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **environment}
    result = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}")
    return result.stdout


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", path))


def exported(path):
    """Names with their versions, of a shared object."""
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", path).splitlines()
    return {line.split()[-1] for line in lines if line.split()[1] != "A"}


def mentioned(path):
    """Those transports whose libraries are named in a file."""
    content = pathlib.Path(path).read_bytes()
    return {transport for transport, libraries in TRANSPORT_LIBRARIES.items()
            if any(f"{library}.so.".encode() in content for library in libraries)}


class InstalledTest(unittest.TestCase):
    """One installation, and a folder for each test."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = pathlib.Path(tempfile.mkdtemp(prefix="skiff installed ".replace(" ", "-")))
        cls.prefix = cls.temporary / "prefix"
        cls.lib = cls.prefix / "lib"
        cls.include = cls.prefix / "include/skiff"
        run(ROOT / "tools/install", "--prefix", cls.prefix, "--use", built, "--with", "fio", DESTDIR="")
        cls.functions = set()
        for header in cls.include.glob("*.h"):
            cls.functions |= set(DECLARES.findall(header.read_text(encoding="utf-8")))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.temporary)

    def setUp(self):
        self.work = self.temporary / self.id().rpartition(".")[2]
        self.work.mkdir()

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, PKG_CONFIG_PATH=str(self.lib / "pkgconfig")).split()

    def compile(self, out, *sources, compiler=C, package="skiff", flags=()):
        program = self.work / out
        run(*compiler, "-o", program, *[HOSTS / source if isinstance(source, str) else source for source in sources],
            *self.pkg_config("--cflags", package), *flags, *self.pkg_config("--libs", package))
        return program

    def expect_done(self, program, *arguments, **environment):
        output = run(program, *arguments, LD_LIBRARY_PATH=str(self.lib), **environment)
        self.assertRegex(output, r"\A\w+: done\n\Z")

    # What is installed.

    def test_every_function_of_the_headers_is_exported_and_nothing_else(self):
        self.assertGreater(len(self.functions), 50)
        self.assertEqual({f"{name}@@SKIFF_0" for name in self.functions}, exported(self.lib / "libskiff.so.0"))

    def test_the_archive_defines_functions_of_the_headers_only(self):
        lines = run("nm", "--defined-only", "--extern-only", self.lib / "libskiff.a").splitlines()
        self.assertEqual(self.functions, {line.split()[2] for line in lines if len(line.split()) == 3})

    def test_the_shared_library_needs_nothing_that_is_not_said(self):
        for library in needed(self.lib / "libskiff.so.0"):
            self.assertRegex(library, NEEDED)
        self.assertIn("[libskiff.so.0]", run("readelf", "-dW", self.lib / "libskiff.so.0"))
        self.assertNotIn("TEXTREL", run("readelf", "-dW", self.lib / "libskiff.so.0"))

    def test_transports_that_were_left_out_are_not_there(self):
        self.assertEqual({"libtcp_only.so.0", "libwithout_libfabric.so.0", "libwithout_verbs.so.0"},
                         {os.path.basename(variant) for variant in variants})
        for path in [self.lib / "libskiff.so.0", *variants]:
            without = {"libtcp_only.so.0": {"libfabric", "verbs"}, "libwithout_libfabric.so.0": {"libfabric"},
                       "libwithout_verbs.so.0": {"verbs"}}.get(os.path.basename(path), set())
            with self.subTest(library=os.path.basename(path)):
                self.assertEqual(set(TRANSPORT_LIBRARIES) - without, mentioned(path))
                self.assertFalse(re.search(r"libfabric|libibverbs|librdmacm", " ".join(needed(path))))
                library = ctypes.CDLL(os.path.abspath(path))
                for transport in ("tcp", "auto", *TRANSPORT_LIBRARIES):
                    self.assertEqual(transport not in without, bool(library.skiff_has_transport(transport.encode())))

    def test_each_header_compiles_alone(self):
        headers = sorted(self.include.glob("*.h"))
        self.assertIn("skiff.h", [header.name for header in headers])
        flags = ("-fsyntax-only", *self.pkg_config("--cflags", "skiff"))
        for header in headers:
            for compiler in (C, ("clang-14", *C[1:]), CXX, ("c++", "-std=c++98", "-Wall", "-Wextra", "-Werror"),
                             ("clang++-14", *CXX[1:])):
                language = "c" if "-std=c11" in compiler else "c++"
                source = self.work / f"{header.stem}.{language}"
                source.write_text(f"#include <skiff/{header.name}>\n#include <skiff/{header.name}>\n", encoding="utf-8")
                with self.subTest(header=header.name, compiler=compiler[:2]):
                    run(*compiler, *flags, source)

    def test_each_header_for_cpp_compiles_alone(self):
        headers = sorted(header.name for header in self.include.glob("*.hpp"))
        self.assertIn("skiff.hpp", headers)
        flags = ("-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", *self.pkg_config("--cflags", "skiff"))
        source = self.work / "header.cc"
        for header in headers:
            source.write_text(f"#include <skiff/{header}>\n#include <skiff/{header}>\n", encoding="utf-8")
            for compiler in ("c++", "clang++-14"):
                for standard in ("-std=c++17", "-std=c++20"):
                    with self.subTest(header=header, compiler=compiler, standard=standard):
                        run(compiler, standard, *flags, source)

    def test_every_function_has_a_manual_page(self):
        pages = self.prefix / "share/man"
        for name in self.functions:
            self.assertTrue((pages / f"man3/{name}.3").is_file(), name)
        self.assertIn("skiff_disk_open", run("man", "-l", pages / "man3/skiff_disk_open.3", MANWIDTH="80"))
        for page in sorted(pages.glob("man*/*")):
            if not page.is_symlink():
                self.assertRegex(run("lexgrog", page), r": \"\S+ - .+\"")

    def test_the_daemons_settings_have_a_page_of_their_own(self):
        settings, daemon = (run("man", "-l", self.prefix / "share/man" / page, MANWIDTH="200")
                            for page in ("man5/skiffd.conf.5", "man8/skiffd.8"))
        for setting in ("shutdown_grace", "lun.max_tasks", "login_timeout"):
            self.assertRegex(settings, rf"│ *{re.escape(setting)} *│")
            self.assertNotRegex(daemon, rf"│ *{re.escape(setting)} *│")
        self.assertIn("See skiffd.conf(5)", daemon)

    def test_programs_say_the_librarys_version(self):
        library = ctypes.CDLL(str(self.lib / "libskiff.so.0"))
        library.skiff_version.restype = ctypes.c_char_p
        version = library.skiff_version().decode()
        self.assertEqual([version], self.pkg_config("--modversion", "skiff"))
        for program in ("bin/skiff", "sbin/skiffd"):
            self.assertIn(version, run(self.prefix / program, "--version").split())

    def test_the_daemon_finds_its_module(self):
        module = self.lib / "skiff/libskiff_metrics.so"
        self.assertEqual({"skiff_start_metrics_exporter"}, exported(module))
        self.assertNotIn("prometheus", " ".join(needed(self.prefix / "sbin/skiffd")))
        config = self.work / "metrics.conf"
        config.write_text('metrics { listen: "127.0.0.1:0" }\nportal: "tcp://127.0.0.1:0"\n'
                          'target { name: "iqn.2026-11.com.example:a" lun { ram { size: "1MiB" } } }\n', encoding="utf-8")
        with subprocess.Popen([self.prefix / "sbin/skiffd", "--config", config], stdout=subprocess.PIPE, text=True) as daemon:
            self.assertIn("metrics=http://127.0.0.1:", daemon.stdout.readline())
            daemon.terminate()
            self.assertEqual(0, daemon.wait())

    def test_a_plugin_finds_the_library_and_exports_nothing_of_it(self):
        plugin = self.lib / "skiff/nbdkit-skiff-plugin.so"
        self.assertEqual({"plugin_init"}, exported(plugin))
        self.assertEqual({"libskiff.so.0", "libc.so.6"}, set(needed(plugin)))
        self.assertIn("name=skiff\n", run("nbdkit", plugin, "--dump-plugin"))

    def test_libiscsis_face_finds_the_library_and_exports_nothing_of_it(self):
        face = self.lib / "skiff/libiscsi.so.7"
        self.assertIn("[libiscsi.so.7]", run("readelf", "-dW", face))
        self.assertIn("[$ORIGIN/..]", run("readelf", "-dW", face))
        self.assertIn("libskiff.so.0", needed(face))
        self.assertGreater(len(exported(face)), 200)
        for name in exported(face):
            self.assertRegex(name, r"\A(iscsi|scsi)_\w+\Z")

    def test_another_libdir_below_destdir(self):
        run(ROOT / "tools/install", "--prefix", "/usr", "--libdir", "/usr/lib/x86_64-linux-gnu", "--destdir", self.work / "root",
            "--use", built)
        files = {str(path.relative_to(self.work / "root")) for path in (self.work / "root").rglob("*")}
        self.assertIn("usr/lib/x86_64-linux-gnu/libskiff.so.0", files)
        self.assertIn("usr/include/skiff/skiff.h", files)
        for path in (self.work / "root").rglob("*"):
            if path.suffix in (".pc", ".cmake"):
                self.assertNotIn(str(self.work), path.read_text(encoding="utf-8"))

    def test_mistakes_are_named(self):
        for arguments, words in ((("--prefix", "relative"), "has to be an absolute path"),
                                 (("--prefix", "/nowhere", "--use", self.work), "is not there: build it first"),
                                 (("--prefix", "/usr", "--without", "tcp"), "invalid choice: 'tcp'"),
                                 (("--prefix", "/usr", "--use", self.work, "--without", "verbs"), "--without is for a build")):
            with self.subTest(arguments=arguments):
                self.assertIn(words, run(ROOT / "tools/install", *arguments, "--destdir", self.work / "d", check=False))

    # Programs in C.

    def test_a_program_in_c(self):
        self.expect_done(self.compile("plain", "plain.c"))

    def test_a_program_in_c_by_clang(self):
        self.expect_done(self.compile("plain", "plain.c", compiler=("clang-14", *C[1:])))

    def test_a_program_that_leaves_the_work_to_threads(self):
        self.expect_done(self.compile("threads", "threads.c"))

    def test_a_loop_of_epoll(self):
        self.expect_done(self.compile("epoll", "epoll.c"))

    def test_a_loop_of_io_uring(self):
        self.expect_done(self.compile("uring", "uring.c", flags=("-luring",)))

    def test_a_program_that_forks(self):
        self.expect_done(self.compile("fork", "fork.c"))

    def test_a_program_with_address_sanitizer(self):
        for name in ("plain", "fork"):
            self.expect_done(self.compile(name, f"{name}.c", flags=("-fsanitize=address,undefined",)))

    def test_a_plugin_that_is_unloaded(self):
        plugin = self.compile("plugin.so", "plugin.c", flags=("-shared", "-fPIC"))
        program = self.work / "unload"
        run(*C, "-o", program, HOSTS / "unload.c")
        self.expect_done(program, plugin)
        output = run("valgrind", "--leak-check=full", "--error-exitcode=1", "--errors-for-leak-kinds=none", program, plugin,
                     LD_LIBRARY_PATH=str(self.lib))
        times = int(re.search(r"TIMES = (\d+)", (HOSTS / "unload.c").read_text(encoding="utf-8"))[1])
        lost = sum(int(number.replace(",", "")) for number in re.findall(r"(?:definitely|indirectly) lost: ([\d,]+)", output))
        self.assertLess(lost, times * LEFT_BY_ONE_LOAD, output)

    # The archive.

    def test_a_program_with_the_archive(self):
        program = self.compile("plain", "plain.c", package="skiff-static")
        self.assertFalse(re.search("libskiff|absl", " ".join(needed(program))))
        self.expect_done(program)

    def test_the_archive_with_address_sanitizer(self):
        self.expect_done(self.compile("plain", "plain.c", package="skiff-static", flags=("-fsanitize=address",)))

    # Hosts with an Abseil of their own.

    def test_another_abseil_beside_either_library(self):
        for package, namespace in (("skiff", "lts_20240116"), ("skiff-static", "lts_20240116"), ("skiff-static", "debian3")):
            with self.subTest(package=package, namespace=namespace):
                clash = self.work / f"clash-{namespace}.o"
                run(*CXX, "-c", f"-DABSEIL_VERSION={namespace}", "-o", clash, HOSTS / "clash.cc")
                self.expect_done(self.compile(f"{package}-{namespace}", "plain.c", clash, package=package,
                                              flags=("-rdynamic", "-lstdc++")))

    # C++, by CMake.

    def test_cmake_finds_it(self):
        shutil.copytree(HOSTS, self.work / "source")
        build = self.work / "build"
        run("cmake", "-S", self.work / "source", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build)
        for program in ("host", "host_static", "host_abseil", "host_abseil_static"):
            with self.subTest(program=program):
                self.expect_done(build / program)
                libraries = run("readelf", "-dW", build / program)
                self.assertEqual("static" not in program, "libskiff.so.0" in libraries)

    def test_cmake_refuses_another_major_version(self):
        (self.work / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(host LANGUAGES C)\n"
                                                  "find_package(Skiff 2.0 REQUIRED)\n", encoding="utf-8")
        output = run("cmake", "-S", self.work, "-B", self.work / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", check=False)
        self.assertIn('compatible with requested version "2.0"', " ".join(output.split()))

    # What the pages say.

    def test_the_commands_of_the_pages(self):
        for page in ("installing.md", "clients.md"):
            with self.subTest(page=page):
                print(run(ROOT / "testing/docs/run_doc.py", f"docs/{page}", prefix=str(self.prefix)))


def main():
    global built  # pylint: disable=global-statement
    arguments = sys.argv[1:]
    mine = arguments[:arguments.index("--")] if "--" in arguments else arguments
    built = str(pathlib.Path(mine[0]).parents[2])
    variants.extend(mine[1:])
    unittest.main(argv=[sys.argv[0], *arguments[len(mine) + 1:]], verbosity=2)


if __name__ == "__main__":
    main()
