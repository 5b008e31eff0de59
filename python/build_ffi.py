"""Makes millrace._millrace, the extension module, from millrace.h and the static libmillrace.

MILLRACE_INCLUDE and MILLRACE_LIB name the folders of the two; without them pkg-config is asked.
"""
import os
import re
import subprocess
from pathlib import Path

from cffi import FFI

LIBRARIES = ["curl", "xml2", "crypto", "jansson", "inih", "isal", "xxhash"]


def folder(variable, option):
    if variable in os.environ:
        return Path(os.environ[variable])
    return Path(subprocess.run(["pkg-config", f"--variable={option}", "millrace"], check=True, capture_output=True, text=True).stdout.strip())


def declarations(header):
    """What cffi reads: the header without comments, preprocessor and C++, and its plain constants."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    constants = re.findall(r"^#define (MR_\w+) +(?:\d+u?|SIZE_MAX)\s*$", text, flags=re.M)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M).replace("MR_API ", "")
    return text + "".join(f"\n#define {name} ..." for name in constants)


include, library = folder("MILLRACE_INCLUDE", "includedir"), folder("MILLRACE_LIB", "libdir")

ffi = FFI()
ffi.cdef(declarations((include / "millrace.h").read_text()))
ffi.cdef('extern "Python" int millrace_credentials(void *, struct mr_credentials *);')
ffi.set_source("millrace._millrace", '#include "millrace.h"', include_dirs=[str(include)],
               extra_objects=[str(library / "libmillrace.a")], libraries=LIBRARIES)
