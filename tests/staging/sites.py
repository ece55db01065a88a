"""Allocation sites of known sizes.

Each function allocates memory in its own way, touches all of it, and keeps it. Only `give_back`
frees it.
"""

import ctypes
import importlib
import importlib.util

MIB = 1 << 20
KEPT = []


def grow_bytearray():
    KEPT.append(bytearray(b"\1") * (256 * MIB))
    return 256 * MIB


def grow_numpy():
    import numpy

    KEPT.append(numpy.full(320 * MIB // 8, 1.0))
    return 320 * MIB


def grow_arrow():
    import numpy
    import pyarrow
    import pyarrow.compute

    # `few` is never written. All its pages are the zero page, which is not counted.
    few = pyarrow.array(numpy.zeros(48 * MIB, dtype="int8"))
    KEPT.append(pyarrow.compute.cast(few, "int64"))
    return 384 * MIB


def grow_malloc():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    address = libc.malloc(ctypes.c_size_t(192 * MIB))
    libc.memset(ctypes.c_void_p(address), 1, ctypes.c_size_t(192 * MIB))
    KEPT.append(address)
    return 192 * MIB


def grow_objects():
    KEPT.append([bytes(2000) for _ in range(120_000)])
    # In addition, each object has 33 bytes of its own, and malloc uses 16.
    return 120_000 * 2048


def grow_torch():
    import torch

    KEPT.append(torch.ones(160 * MIB // 4))
    return 160 * MIB


def grow_pandas():
    import pandas

    KEPT.append(pandas.DataFrame(1.0, index=range(20 * MIB // 8), columns=list("abcdefgh")))
    return 160 * MIB


def grow_put():
    import ray

    # Use an array that exists already. Its memory is not growth of this line.
    source = next(kept for kept in KEPT if type(kept).__name__ == "ndarray")
    KEPT.append(ray.put(source))
    return source.nbytes


def give_back():
    for _ in range(3):
        bytearray(b"\1") * (200 * MIB)
    return 0


def known(ray):
    """Returns the sites that can run here.

    It imports their modules now, because imports allocate memory too.
    """
    needs = {"numpy": ["grow_numpy", "grow_put"], "pyarrow": ["grow_arrow"], "torch": ["grow_torch"], "pandas": ["grow_pandas"]}
    found = {module for module in needs if importlib.util.find_spec(module)}
    for module in sorted(found):
        importlib.import_module(module)
    if "pyarrow" in found:
        importlib.import_module("pyarrow.compute")
    if "torch" in found:
        # The first operation starts threads, which take 25 MiB.
        importlib.import_module("torch").ones(1 << 20)
    missing = {name for module, names in needs.items() if module not in found for name in names}
    missing |= set() if ray else {"grow_put"}
    sites = [grow_bytearray, grow_numpy, grow_pandas, grow_arrow, grow_torch, grow_malloc, grow_objects, grow_put, give_back]
    return [site for site in sites if site.__name__ not in missing]
