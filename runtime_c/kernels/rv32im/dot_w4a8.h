/* dot_w4a8.h: as portable/pairs_dot_w4a8.h, 32-bit RISC-V.
 *
 * In assembler, to have all pairs of a group in registers: one of 4 rows takes 284 instructions, or 303 where code is
 * made for size.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/rv32im/linear.h"

#include "kernels/portable/pairs_dot_w4a8.h" /* stores by the former */

/* Macros of the assembler, since a string of all instructions is longer than C compilers have to take. a1: the mask,
 * a2: w, a4: the factors, a5: the sums, s9: the start, t0 to t6, a6, a7 and s2 to s8: the pairs. */
#define COLIBRI_MACROS_W4A8                                                                                         \
    /* The part in a3 is another register plus the products of a pair. */                                           \
    "   .macro colibri_add part, pair, word\n"                                                                      \
    "   and  \\word, \\word, a1\n"                                                                                  \
    "   mul  \\word, \\word, \\pair\n"                                                                              \
    "   add  a3, \\part, \\word\n"                                                                                  \
    "   .endm\n"                                                                                                    \
    /* So with 4 pairs and nibbles of a word. Before the last product comes the load of another word, if any. */    \
    "   .macro colibri_word part, word, pair0, pair1, pair2, pair3, next, at\n"                                     \
    "   srli a0, \\word, 4\n"                                                                                       \
    "   colibri_add \\part, \\pair1, a0\n"                                                                          \
    "   srli a0, \\word, 8\n"                                                                                       \
    "   colibri_add a3, \\pair2, a0\n"                                                                              \
    "   srli a0, \\word, 12\n"                                                                                      \
    "   colibri_add a3, \\pair3, a0\n"                                                                              \
    "   .ifnb \\at\n"                                                                                               \
    "   lw   \\next, \\at(a2)\n"                                                                                    \
    "   .endif\n"                                                                                                   \
    "   colibri_add a3, \\pair0, \\word\n"                                                                          \
    "   .endm\n"                                                                                                    \
    /* A row, whose first word is in s0, at that many bytes behind w. */                                            \
    "   .macro colibri_row row, at, next\n"                                                                         \
    "   colibri_word s9, s0, t0, t1, t2, t3, s1, \\at+4\n"                                                          \
    "   colibri_word a3, s1, t4, t5, t6, a6, s0, \\at+8\n"                                                          \
    "   colibri_word a3, s0, a7, s2, s3, s4, s1, \\at+12\n"                                                         \
    "   colibri_word a3, s1, s5, s6, s7, s8, s0, \\next\n"                                                          \
    "   lb   a0, \\row(a4)\n"                                                                                       \
    "   lw   s1, 4*\\row(a5)\n"                                                                                     \
    "   srai a3, a3, 16\n"                                                                                          \
    "   mul  a0, a0, a3\n"                                                                                          \
    "   add  s1, s1, a0\n"                                                                                          \
    "   sw   s1, 4*\\row(a5)\n"                                                                                     \
    "   .endm\n"

/* 4 rows; s10 is the end of the sums. */
#ifdef __OPTIMIZE_SIZE__
#define COLIBRI_ROWS_W4A8   \
    "   addi s10, a5, 16\n" \
    "2: lw   s0, 0(a2)\n"   \
    "   colibri_row 0, 0\n" \
    "   addi a2, a2, 16\n"  \
    "   addi a4, a4, 1\n"   \
    "   addi a5, a5, 4\n"   \
    "   bne  a5, s10, 2b\n" \
    "   addi a2, a2, -64\n" \
    "   addi a4, a4, -4\n"  \
    "   lw   s10, 52(sp)\n"
#else
#define COLIBRI_ROWS_W4A8           \
    "   lw   s0, 0(a2)\n"           \
    "   colibri_row 0, 0, 16\n"     \
    "   colibri_row 1, 16, 32\n"    \
    "   colibri_row 2, 32, 48\n"    \
    "   colibri_row 3, 48\n"        \
    "   addi a5, a5, 16\n"
#endif

/* It saves registers itself, since not every compiler does so with all of them at every level. */
COLIBRI_ASSEMBLY void colibri_rows_w4a8(const colibri_group_w4a8 *group)
{
    register const colibri_group_w4a8 *a0 __asm__("a0") = group;
    __asm__ __volatile__(
        COLIBRI_MACROS_W4A8
        "   addi sp, sp, -64\n"
        "   sw   ra, 0(sp)\n"
        "   sw   s0, 4(sp)\n"
        "   sw   s1, 8(sp)\n"
        "   sw   s2, 12(sp)\n"
        "   sw   s3, 16(sp)\n"
        "   sw   s4, 20(sp)\n"
        "   sw   s5, 24(sp)\n"
        "   sw   s6, 28(sp)\n"
        "   sw   s7, 32(sp)\n"
        "   sw   s8, 36(sp)\n"
        "   sw   s9, 40(sp)\n"
        "   sw   s10, 44(sp)\n"
        "   sw   s11, 48(sp)\n"
        "   lw   a5, 0(a0)\n"
        "   lw   a4, 4(a0)\n"
        "   lw   a2, 8(a0)\n"
        "   lw   s10, 12(a0)\n"
        "   lw   s9, 16(a0)\n"
        "   lw   s11, 20(a0)\n"
        "   lw   ra, 24(a0)\n"
        "   lw   a1, 28(a0)\n"
        "   sw   s10, 52(sp)\n"
        "   lw   t0, 32(a0)\n"
        "   lw   t1, 36(a0)\n"
        "   lw   t2, 40(a0)\n"
        "   lw   t3, 44(a0)\n"
        "   lw   t4, 48(a0)\n"
        "   lw   t5, 52(a0)\n"
        "   lw   t6, 56(a0)\n"
        "   lw   a6, 60(a0)\n"
        "   lw   a7, 64(a0)\n"
        "   lw   s2, 68(a0)\n"
        "   lw   s3, 72(a0)\n"
        "   lw   s4, 76(a0)\n"
        "   lw   s5, 80(a0)\n"
        "   lw   s6, 84(a0)\n"
        "   lw   s7, 88(a0)\n"
        "   lw   s8, 92(a0)\n"
        "1:\n"
        COLIBRI_ROWS_W4A8
        "   add  a2, a2, s11\n"
        "   add  a4, a4, ra\n"
        "   bne  a5, s10, 1b\n"
        "   lw   ra, 0(sp)\n"
        "   lw   s0, 4(sp)\n"
        "   lw   s1, 8(sp)\n"
        "   lw   s2, 12(sp)\n"
        "   lw   s3, 16(sp)\n"
        "   lw   s4, 20(sp)\n"
        "   lw   s5, 24(sp)\n"
        "   lw   s6, 28(sp)\n"
        "   lw   s7, 32(sp)\n"
        "   lw   s8, 36(sp)\n"
        "   lw   s9, 40(sp)\n"
        "   lw   s10, 44(sp)\n"
        "   lw   s11, 48(sp)\n"
        "   addi sp, sp, 64\n"
        "   .purgem colibri_add\n"
        "   .purgem colibri_word\n"
        "   .purgem colibri_row"
        : "+r"(a0)
        :
        : "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "memory");
}

#endif
