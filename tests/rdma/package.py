"""The project's Python package as `make wheel` made it, in a guest in which nothing is installed."""
import importlib
import sys
import zipfile

from tests.support.daemon import BUILD


def unpack(folder):
    """Unpacks it there, and imports it; the module."""
    with zipfile.ZipFile(next((BUILD / "python").glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    sys.path.insert(0, str(folder))
    return importlib.import_module("millrace")
