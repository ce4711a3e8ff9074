"""Weights, tokens and the order of samples by formulas that tests/parity/pytorch_golden.hpp computes as well, so that a
golden file needs to hold neither.

Element i of whatever is named N is the (i + 1)th output of splitmix64 (Steele, Lea, Flood 2014) from the state
fnv1a64(N), as a number u in [0, 1) by its upper 53 bits; exact in double."""

import numpy

MASK = 2**64 - 1


def fnv1a64(name):
    """FNV-1a of 64 bits (Fowler, Noll, Vo)."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def uniform(name, count):
    """u of elements 0 … count − 1."""
    step = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    z = numpy.uint64(fnv1a64(name)) + step
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    z = z ^ (z >> numpy.uint64(31))
    return (z >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53


def symmetric(name, count):
    """2u − 1: in [−1, 1)."""
    return 2 * uniform(name, count) - 1


def initial(name, count, norm_weight_offset=0):
    """A parameter before training. Large enough that activations bend and attention prefers: small weights would hide
    faults of either."""
    if name.endswith(("norm.weight", "norm1.weight", "norm2.weight")):
        return (1 - norm_weight_offset) + symmetric(name, count) * 0.1
    return symmetric(name, count) * (0.1 if name.endswith(".bias") else 0.15)


def tokens(count, vocabulary):
    """Small ones are frequent, which is what the first steps learn."""
    u = uniform("tokens", count)
    return numpy.floor(u * u * vocabulary).astype(numpy.int64)


def philox4x32(counter, key):
    """Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011); `counter` of four words, `key` of 64 bits."""
    c = list(counter)
    low, high = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ low, second & 0xFFFFFFFF, first >> 32 ^ c[3] ^ high, first & 0xFFFFFFFF]
        low, high = low + 0x9E3779B9 & 0xFFFFFFFF, high + 0xBB67AE85 & 0xFFFFFFFF
    return c


def window(seed, sample, windows):
    """Which of the file's windows sample `sample` of a run is, by runtime/data/permutation.hpp."""
    epoch, i = divmod(sample, windows)
    half = ((windows - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        a, b = i >> half, i & mask
        for turn in range(8):
            a, b = b, a ^ philox4x32([b, turn, epoch, MASK >> 32], seed)[0] & mask
        i = a << half | b
        if i < windows:
            return i
