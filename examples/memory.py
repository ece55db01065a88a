"""Allocates memory and touches its pages. Only then do the kernel and Ray count them."""

MIB = 1 << 20


def hold(mib):
    """Returns `mib` MiB of private memory."""
    return bytearray(b"\1") * (mib * MIB)
