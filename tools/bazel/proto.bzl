"""C++ code from .proto files, with Debian's protoc."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def skiff_cc_proto(name, srcs, deps = [], visibility = None, testonly = False):
    """A cc_library with the messages of `srcs`; include them as "path/to/file.pb.h".

    Args:
      name: the library's name.
      srcs: .proto files of this package. They import others by their paths from the repository's root.
      deps: other skiff_cc_proto targets whose files `srcs` import.
      visibility: as for any rule.
      testonly: as for any rule.
    """
    for src in srcs:
        if not src.endswith(".proto"):
            fail("skiff_cc_proto(%s): %s is not a .proto file" % (name, src))
    headers = [src[:-len(".proto")] + ".pb.h" for src in srcs]
    sources = [src[:-len(".proto")] + ".pb.cc" for src in srcs]

    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [dep + "_protos" for dep in deps],
        testonly = testonly,
        visibility = visibility,
    )
    native.genrule(
        name = name + "_protoc",
        srcs = srcs + [dep + "_protos" for dep in deps],
        outs = headers + sources,
        cmd = "protoc --proto_path=. --cpp_out=$(GENDIR) " + " ".join(["$(location %s)" % src for src in srcs]),
        message = "Generating C++ from protocol buffers",
        testonly = testonly,
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # The warnings of generated code are not ours to fix.
        copts = ["-w"],
        testonly = testonly,
        visibility = visibility,
        deps = deps + ["@system//:protobuf"],
    )
