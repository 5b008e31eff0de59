"""What pyproject.toml cannot say: the extension module is made by cffi (build_ffi.py)."""
from setuptools import setup

setup(cffi_modules=["build_ffi.py:ffi"])
