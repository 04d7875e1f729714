"""Sums and products whose large terms cancel, from operations in double precision."""

import numpy as np


def accurate_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B where large terms cancel, with an error of about 1e-23 of the terms instead of 1e-16.

    The leading bits of A and B are so few that sums of their products are exact; the other
    products are small (Ozaki, Ogita, Oishi & Rump 2012, with two slices).
    """
    bits = (np.finfo(float).nmant + 1 - (len(B) - 1).bit_length()) // 2
    lead_A, lead_B = _leading_bits(A, 1, bits), _leading_bits(B, 0, bits)
    return lead_A @ lead_B + (lead_A @ (B - lead_B) + (A - lead_A) @ B)


def _leading_bits(A: np.ndarray, axis: int, bits: int) -> np.ndarray:
    """Entries rounded to this many bits of the largest one along the axis."""
    exponent = np.frexp(np.abs(A).max(axis, keepdims=True))[1]
    unit = np.ldexp(1.0, exponent - bits)
    return np.rint(A / unit) * unit


def exact_difference(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a - b as a sum of two numbers: rounded, and the rounding error (Knuth's TwoSum)."""
    high = a - b
    back = high - a
    return high, (a - (high - back)) - (b + back)
