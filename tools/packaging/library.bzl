"""The library as others link it."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

def shared_library(name, deps):
    """A shared object that exports what skiff.map says.

    Args:
      name: its file.
      deps: libraries, all of which is in it that alwayslink says.
    """
    cc_binary(
        name = name,
        additional_linker_inputs = ["//tools/library:skiff.map"],
        linkopts = [
            "-Wl,-soname,libskiff.so.0",
            "-Wl,--version-script=$(location //tools/library:skiff.map)",
            "-Wl,--exclude-libs,ALL",
        ] + select({
            "@rules_cc//cc:opt": ["-Wl,-z,defs"],
            # The program brings the runtime of a sanitizer.
            "//conditions:default": [],
        }),
        linkshared = True,
        deps = deps,
    )

def _archive_impl(ctx):
    archives = []
    for linked in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list():
        for part in linked.libraries:
            file = part.pic_static_library or part.static_library
            if file and file not in archives:
                archives.append(file)
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run(
        outputs = [out],
        inputs = archives,
        executable = ctx.executable._tool,
        arguments = [out.path] + [file.path for file in archives],
        mnemonic = "SkiffArchive",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

# A library and all that it needs of Skiff and of Abseil, as one archive that defines skiff_* alone.
archive = rule(
    implementation = _archive_impl,
    attrs = {
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "_tool": attr.label(cfg = "exec", default = "//tools/packaging:merge_archives", executable = True),
    },
)
