"""CRC-32 of bytes that are not in one place: checksums of the pieces make that of the whole."""

from __future__ import annotations

_POLYNOMIAL = 0xEDB88320  # of zlib, lowest coefficient in the highest bit
_ONE = 1 << 31


def combined(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two runs of bytes, one behind the other.

    Args:
        first, second: their checksums.
        length: bytes of the second.
    """
    # A byte of zeros behind the first is a factor x^8 modulo the polynomial.
    power, factor = _ONE, 1 << 23
    while length:
        if length & 1:
            power = _product(power, factor)
        factor = _product(factor, factor)
        length >>= 1
    return _product(power, first) ^ second


def _product(a: int, b: int) -> int:
    """Of two polynomials, modulo that of the checksum."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = (a << 1) & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
