"""Builds the kernels in C, which are optional: where there is no compiler, their twins do their work.

See `elf.cbt.native` and `elf.agents.sources.native`. Who makes packages says in $ELF_KERNELS what is to be in them:
with `required` a kernel that cannot be built is an error, with `none` the wheel has none and is for any machine.
"""

import atexit
import os
import pathlib
import shutil
import sys
import tempfile

from setuptools import Extension, setup

#: Fresh each time: what an earlier build left in `build/` would ship again, modules that are gone by now, too.
BUILD = tempfile.mkdtemp(prefix="elf-build-")
atexit.register(shutil.rmtree, BUILD, ignore_errors=True)
#: What is for debuggers would name the folder that was built in: no two builds would be the same.
OPTIMISED = ("-O3", "-g0")
#: The rest of the product, below its one name; in a source distribution they are folders.
for linked in ("agents", "overlay", "cbt"):
    if not pathlib.Path("elf", linked).is_dir():
        sys.exit(f"elf/{linked} is no link: git config core.symlinks true, then git checkout -- elf")

#: The kernels of the buffer tree, and of what takes log lines apart.
FOLDERS = ("elf/cbt/native", "elf/agents/sources/native")


KERNELS = os.environ.get("ELF_KERNELS", "optional")
if KERNELS not in ("optional", "required", "none"):
    sys.exit(f"ELF_KERNELS is {KERNELS!r}; use optional, required or none")


def kernels(folder: str) -> Extension:
    """Return the extension of a folder of sources in C."""
    return Extension(
        f"{folder.replace('/', '.')}._kernels",
        sources=sorted(map(str, pathlib.Path(folder).glob("*.c"))),
        depends=sorted(map(str, pathlib.Path(folder).glob("*.h"))),
        extra_compile_args=[
            *OPTIMISED,
            "-std=c11",
            "-fvisibility=hidden",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
        ],
        py_limited_api=True,
        optional=KERNELS == "optional",
    )


native = KERNELS != "none"
setup(
    ext_modules=list(map(kernels, FOLDERS)) if native else [],
    options={"build": {"build_base": BUILD}, "bdist_wheel": {"py_limited_api": "cp311"} if native else {}},
)
