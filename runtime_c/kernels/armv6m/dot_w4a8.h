/* dot_w4a8.h: as portable/pairs_dot_w4a8.h, Armv6-M.
 *
 * In assembler, to have sums in the upper registers: 8 columns of 4 rows take 80 instructions.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/armv6m/linear.h"
#include "kernels/portable/shared.h"

/* Where sums are. When gcc optimises Thumb-1 code for size it keeps the upper registers to itself; they are then saved
 * here, but for r12, which no function has to keep, and the sums leave through memory. */
#if defined __OPTIMIZE_SIZE__ && !defined __clang__
#define COLIBRI_SAVED_W4A8 1
#define COLIBRI_UPPER_W4A8(name, upper) upper
#else
#define COLIBRI_SAVED_W4A8 0
#define COLIBRI_UPPER_W4A8(name, upper) "%[" name "]"
#endif

/* part plus the products of two pairs of columns with nibbles of a row's word that many bits up in each half. */
#define COLIBRI_ROW_W4A8(part, at, first, second)           \
    "   ldr     %[word], [%[w], #" at "]\n"                 \
    first                                                   \
    "   ands    %[t], %[mask]\n"                            \
    "   muls    %[t], %[pair]\n"                            \
    "   add     " part ", %[t]\n"                           \
    "   lsrs    %[word], %[word], #" second "\n"            \
    "   ands    %[word], %[mask]\n"                         \
    "   muls    %[word], %[next]\n"                         \
    "   add     " part ", %[word]\n"
#define COLIBRI_ROWS_W4A8(at, after, first, second)                                         \
    "   ldr     %[pair], [%[pairs], #" at "]\n"                                             \
    "   ldr     %[next], [%[pairs], #" after "]\n"                                          \
    COLIBRI_ROW_W4A8(COLIBRI_UPPER_W4A8("part0", "r8"), "0", first, second)                 \
    COLIBRI_ROW_W4A8(COLIBRI_UPPER_W4A8("part1", "r9"), "16", first, second)                \
    COLIBRI_ROW_W4A8(COLIBRI_UPPER_W4A8("part2", "r10"), "32", first, second)               \
    COLIBRI_ROW_W4A8(COLIBRI_UPPER_W4A8("part3", "r11"), "48", first, second)

/* The steps of the loop over words of weights. */
#define COLIBRI_GROUP_W4A8                                                                  \
    "1:\n"                                                                                  \
    COLIBRI_ROWS_W4A8("0", "4", "   movs    %[t], %[word]\n", "4")                          \
    COLIBRI_ROWS_W4A8("8", "12", "   lsrs    %[t], %[word], #8\n", "12")                    \
    "   adds    %[pairs], %[pairs], #16\n"                                                  \
    "   adds    %[w], %[w], #4\n"                                                           \
    "   cmp     %[pairs], " COLIBRI_UPPER_W4A8("end", "r12") "\n"                           \
    "   bne     1b\n"

COLIBRI_INSIDE void colibri_group_w4a8(uint32_t part[4], const uint8_t *restrict w, const uint32_t *restrict pairs,
                                       uint32_t start)
{
#if COLIBRI_SAVED_W4A8
    uint32_t next, word;
    uint32_t *restrict pair = part; /* its register is free until the loop */
    __asm__ __volatile__(
        "   .syntax unified\n"
        "   push    {%[pair]}\n"
        "   mov     %[word], r8\n"
        "   push    {%[word]}\n"
        "   mov     %[word], r9\n"
        "   push    {%[word]}\n"
        "   mov     %[word], r10\n"
        "   push    {%[word]}\n"
        "   mov     %[word], r11\n"
        "   push    {%[word]}\n"
        "   mov     r8, %[t]\n"
        "   mov     r9, %[t]\n"
        "   mov     r10, %[t]\n"
        "   mov     r11, %[t]\n"
        "   movs    %[t], %[pairs]\n"
        "   adds    %[t], %[t], #64\n"
        "   mov     r12, %[t]\n"
        COLIBRI_GROUP_W4A8
        "   ldr     %[pair], [sp, #16]\n"
        "   mov     %[word], r8\n"
        "   str     %[word], [%[pair], #0]\n"
        "   mov     %[word], r9\n"
        "   str     %[word], [%[pair], #4]\n"
        "   mov     %[word], r10\n"
        "   str     %[word], [%[pair], #8]\n"
        "   mov     %[word], r11\n"
        "   str     %[word], [%[pair], #12]\n"
        "   pop     {%[word]}\n"
        "   mov     r11, %[word]\n"
        "   pop     {%[word]}\n"
        "   mov     r10, %[word]\n"
        "   pop     {%[word]}\n"
        "   mov     r9, %[word]\n"
        "   pop     {%[word]}\n"
        "   mov     r8, %[word]\n"
        "   pop     {%[pair]}"
        : [w] "+l"(w), [pairs] "+l"(pairs), [pair] "+l"(pair), [next] "=&l"(next), [word] "=&l"(word), [t] "+l"(start)
        : [mask] "l"(0x000F000F)
        : "r12", "cc", "memory");
#else
    uint32_t part0 = start, part1 = start, part2 = start, part3 = start, pair, next, word, t;
    __asm__(
        "   .syntax unified\n"
        COLIBRI_GROUP_W4A8
        : [part0] "+h"(part0), [part1] "+h"(part1), [part2] "+h"(part2), [part3] "+h"(part3), [w] "+l"(w),
          [pairs] "+l"(pairs), [pair] "=&l"(pair), [next] "=&l"(next), [word] "=&l"(word), [t] "=&l"(t)
        : [mask] "l"(0x000F000F), [end] "h"(pairs + 16)
        : "cc", "memory");
    part[0] = part0;
    part[1] = part1;
    part[2] = part2;
    part[3] = part3;
#endif
}

#include "kernels/portable/pairs_dot_w4a8.h"

#endif
