"""The names that Bazel's own repositories load from rules_cc, bound to Bazel's native rules."""

# What each compilation mode means here. Flags of a target come behind those that the toolchain has for the mode, as those
# of .bazelrc do, which do not know the mode; and before --per_file_copt.
_COPTS = select({
    "@rules_cc//cc:fastbuild": [
        "-O1",
        "-g1",
    ],
    "@rules_cc//cc:opt": [
        "-O2",
        "-g1",
        # The toolchain keeps frame pointers unless told not to: `perf record` needs --call-graph=dwarf without them.
        "-fomit-frame-pointer",
        # What gcc 12 says at this level of memory that inlined functions of Abseil and of the standard library use is wrong.
        "-Wno-uninitialized",
        "-Wno-maybe-uninitialized",
        "-Wno-array-bounds",
    ],
    "//conditions:default": [],
})

def cc_binary(name, copts = [], **kwargs):
    native.cc_binary(name = name, copts = _COPTS + copts, **kwargs)

def cc_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = _COPTS + copts, **kwargs)

def cc_test(name, copts = [], **kwargs):
    native.cc_test(name = name, copts = _COPTS + copts, **kwargs)

cc_import = native.cc_import
cc_proto_library = native.cc_proto_library
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
fdo_prefetch_hints = native.fdo_prefetch_hints
fdo_profile = native.fdo_profile
objc_import = native.objc_import
objc_library = native.objc_library

def _unsupported_impl(_ctx):
    fail("this rule of rules_cc is not available here")

cc_flags_supplier = rule(implementation = _unsupported_impl)
compiler_flag = rule(implementation = _unsupported_impl)
