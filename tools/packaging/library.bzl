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

def _archives_of(libraries, for_shared_objects):
    found = {}
    for library in libraries:
        for linked in library[CcInfo].linking_context.linker_inputs.to_list():
            for part in linked.libraries:
                kinds = [part.static_library, part.pic_static_library]
                if for_shared_objects:
                    kinds = [part.pic_static_library, part.static_library]
                if kinds[0] or kinds[1]:
                    found[linked.owner] = kinds[0] or kinds[1]
    return found

def _joined_archive_impl(ctx):
    without = _archives_of(ctx.attr.without, ctx.attr.for_shared_objects)
    files = _archives_of([ctx.attr.library], ctx.attr.for_shared_objects)
    main = files.pop(ctx.attr.main.label) if ctx.attr.main else None
    files = [file for owner, file in files.items() if owner not in without]
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run(
        outputs = [out],
        inputs = files + ([main] if main else []),
        executable = ctx.executable._tool,
        arguments = [out.path] + [file.path for file in files] + (["--main", main.path] if main else []),
        mnemonic = "SkiffJoin",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

# A library and all that it needs of Skiff, as one archive for those who compile against Skiff's own headers.
joined_archive = rule(
    implementation = _joined_archive_impl,
    attrs = {
        # Else for programs.
        "for_shared_objects": attr.bool(),
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        # The library with main(), which a program of another main() does not take.
        "main": attr.label(providers = [CcInfo]),
        # What other archives have already.
        "without": attr.label_list(providers = [CcInfo]),
        "_tool": attr.label(cfg = "exec", default = "//tools/packaging:join_archives", executable = True),
    },
)
