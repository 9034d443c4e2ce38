"""Builds the kernels in C, which are optional: where there is no compiler, NumPy does their work (`elf.cbt.native`)."""

import pathlib

from setuptools import Extension, setup

FOLDER = pathlib.Path("elf/cbt/native")

setup(
    ext_modules=[
        Extension(
            "elf.cbt.native._kernels",
            sources=sorted(map(str, FOLDER.glob("*.c"))),
            depends=sorted(map(str, FOLDER.glob("*.h"))),
            extra_compile_args=["-O3", "-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
