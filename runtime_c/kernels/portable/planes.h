/* planes.h: integers of 2 to 6 bits, in planes.
 *
 * 32 columns of a row are 4 * bits bytes: a plane of their lower 2 or 4 bits, then one of their upper 1 or 2, where
 * there are any. A plane of b bits has 4 * b bytes; byte c holds columns c, c + 4 * b, ..., the first in its lowest bits.
 * So a word holds four neighbours, one in each byte.
 */
#ifndef COLIBRI_PLANES_H
#define COLIBRI_PLANES_H

#include <stdint.h>

/* Words are read from little-endian memory that the packer aligned. */
static inline const uint32_t *colibri_words(const uint8_t *bytes)
{
    return (const uint32_t *)(const void *)bytes;
}

/* Columns 4 * quad to 4 * quad + 3 of 32, one in each byte, each from 0 to 2^bits - 1. */
static inline uint32_t colibri_quad(const uint32_t *words, int quad, int bits)
{
    const uint32_t two = (words[quad & 1] >> (quad >> 1) * 2) & 0x03030303;
    const uint32_t four = bits >= 4 ? (words[quad & 3] >> (quad >> 2) * 4) & 0x0F0F0F0F : 0;
    switch (bits) {
    case 2:
        return two;
    case 3:
        return two | ((words[2] >> quad) & 0x01010101) << 2;
    case 4:
        return four;
    case 5:
        return four | ((words[4] >> quad) & 0x01010101) << 4;
    default:
        return four | ((words[4 + (quad & 1)] >> (quad >> 1) * 2) & 0x03030303) << 4;
    }
}

/* What a zero point takes off each weight of a group, in units of the row's scale. */
static inline int32_t colibri_zero(uint8_t zero, int8_t factor, int bits)
{
    return zero * factor >> (8 - bits);
}

#endif
