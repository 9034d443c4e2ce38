"""Builds the kernels in C, which are optional: where there is no compiler, NumPy does their work (`elf.cbt.native`)."""

import atexit
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

FOLDER = pathlib.Path("elf/cbt/native")

setup(
    ext_modules=[
        Extension(
            "elf.cbt.native._kernels",
            sources=sorted(map(str, FOLDER.glob("*.c"))),
            depends=sorted(map(str, FOLDER.glob("*.h"))),
            extra_compile_args=[
                *OPTIMISED,
                "-std=c11",
                "-fvisibility=hidden",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
            ],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"build": {"build_base": BUILD}, "bdist_wheel": {"py_limited_api": "cp311"}},
)
