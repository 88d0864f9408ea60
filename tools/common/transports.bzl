"""The transports of a build."""

load("@rules_cc//cc:defs.bzl", "cc_library")

# What each needs. TCP is always there.
_DEPS = {
    "libfabric": [
        "//transport/libfabric",
        "//transport/libfabric/fabric:library",
    ],
    "verbs": ["//transport/verbs"],
}

TRANSPORTS_TO_LEAVE_OUT = sorted(_DEPS.keys())

def transports(name, without = []):
    """transports.cc with all transports but some.

    Args:
      name: of the library.
      without: those of TRANSPORTS_TO_LEAVE_OUT that are left out.
    """
    deps = []
    for transport in TRANSPORTS_TO_LEAVE_OUT:
        if transport not in without:
            deps += _DEPS[transport]
    cc_library(
        name = name,
        srcs = ["transports.cc"],
        local_defines = ["SKIFF_WITHOUT_" + transport.upper() for transport in without],
        deps = deps + [
            ":transports_api",
            "//transport/tcp",
            "@system//:absl",
        ],
    )
