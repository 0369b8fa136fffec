/* dot_w4a8.h: as portable/pairs_dot_w4a8.h, Armv6-M.
 *
 * In assembler, to have parts of sums in the upper registers and pairs at the stack pointer, from where 4 are loaded at
 * once: a group of 4 rows takes 307 instructions, or 333 where code is made for size.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/armv6m/linear.h"
#include "kernels/portable/pairs_dot_w4a8.h"

/* Macros of the assembler, since a string of all instructions is longer than C compilers have to take. r1: the mask,
 * r3: w, r4 to r7: 4 pairs, r12: the sums, lr: the factors. The stack pointer is at the pairs, the first ones last. */
#define COLIBRI_MACROS_W4A8                                                 \
    /* A part plus the products of a pair. */                               \
    "   .macro  colibri_add part, pair, word\n"                             \
    "   ands    \\word, r1\n"                                               \
    "   muls    \\word, \\pair\n"                                           \
    "   add     \\part, \\word\n"                                           \
    "   .endm\n"                                                            \
    /* A part plus the products of 4 pairs with nibbles of a row's word. */ \
    "   .macro  colibri_row part, at\n"                                     \
    "   ldr     r2, [r3, #\\at]\n"                                          \
    "   lsrs    r0, r2, #4\n"                                               \
    "   colibri_add \\part, r5, r0\n"                                       \
    "   lsrs    r0, r2, #8\n"                                               \
    "   colibri_add \\part, r6, r0\n"                                       \
    "   lsrs    r0, r2, #12\n"                                              \
    "   colibri_add \\part, r7, r0\n"                                       \
    "   colibri_add \\part, r4, r2\n"                                       \
    "   .endm\n"                                                            \
    /* 4 rows, whose words are so many bytes behind w. */                   \
    "   .macro  colibri_rows at\n"                                          \
    "   colibri_row r8, \\at\n"                                             \
    "   colibri_row r9, \\at+16\n"                                          \
    "   colibri_row r10, \\at+32\n"                                         \
    "   colibri_row r11, \\at+48\n"                                         \
    "   .endm\n"                                                            \
    /* A sum plus its part times the factor in r1. */                       \
    "   .macro  colibri_sum sum, part\n"                                    \
    "   mov     r0, \\part\n"                                               \
    "   asrs    r0, r0, #16\n"                                              \
    "   muls    r0, r1\n"                                                   \
    "   adds    \\sum, \\sum, r0\n"                                         \
    "   .endm\n"

/* All columns of 4 rows. */
#ifdef __OPTIMIZE_SIZE__
#define COLIBRI_COLUMNS_W4A8        \
    "   add     r0, sp, #48\n"      \
    "2:\n"                          \
    "   ldm     r0!, {r4-r7}\n"     \
    "   subs    r0, r0, #32\n"      \
    "   str     r0, [sp, #84]\n"    \
    "   colibri_rows 0\n"           \
    "   adds    r3, r3, #4\n"       \
    "   ldr     r0, [sp, #84]\n"    \
    "   mov     r2, sp\n"           \
    "   cmp     r0, r2\n"           \
    "   bhs     2b\n"               \
    "   subs    r3, r3, #16\n"
#else
#define COLIBRI_COLUMNS_W4A8    \
    "   add     r0, sp, #48\n"  \
    "   ldm     r0!, {r4-r7}\n" \
    "   colibri_rows 0\n"       \
    "   add     r0, sp, #32\n"  \
    "   ldm     r0!, {r4-r7}\n" \
    "   colibri_rows 4\n"       \
    "   add     r0, sp, #16\n"  \
    "   ldm     r0!, {r4-r7}\n" \
    "   colibri_rows 8\n"       \
    "   add     r0, sp, #0\n"   \
    "   ldm     r0!, {r4-r7}\n" \
    "   colibri_rows 12\n"
#endif

/* It saves registers itself, since not every compiler does so with all of them at every level. */
COLIBRI_ASSEMBLY void colibri_rows_w4a8(const colibri_group_w4a8 *group)
{
    register const colibri_group_w4a8 *r0 __asm__("r0") = group;
    __asm__ __volatile__(
        "   .syntax unified\n"
        COLIBRI_MACROS_W4A8
        "   push    {r4-r7, lr}\n"
        "   mov     r4, r8\n"
        "   mov     r5, r9\n"
        "   mov     r6, r10\n"
        "   mov     r7, r11\n"
        "   push    {r4-r7}\n"
        "   ldm     r0!, {r1-r3}\n"
        "   mov     r12, r1\n"
        "   mov     lr, r2\n"
        "   sub     sp, #4\n"
        "   ldm     r0!, {r1, r4-r7}\n" /* end, start, apart, factors_apart, nibbles */
        "   push    {r1, r4-r7}\n"
        "   movs    r1, r7\n"
        "   ldm     r0!, {r4-r7}\n"
        "   push    {r4-r7}\n"
        "   ldm     r0!, {r4-r7}\n"
        "   push    {r4-r7}\n"
        "   ldm     r0!, {r4-r7}\n"
        "   push    {r4-r7}\n"
        "   ldm     r0!, {r4-r7}\n"
        "   push    {r4-r7}\n"
        "1:\n"
        "   ldr     r0, [sp, #68]\n"
        "   mov     r8, r0\n"
        "   mov     r9, r0\n"
        "   mov     r10, r0\n"
        "   mov     r11, r0\n"
        COLIBRI_COLUMNS_W4A8
        "   mov     r0, lr\n"
        "   ldr     r2, [r0]\n"
        "   ldr     r1, [sp, #76]\n"
        "   add     lr, r1\n"
        "   mov     r0, r12\n"
        "   ldm     r0!, {r4-r7}\n"
        "   sxtb    r1, r2\n"
        "   colibri_sum r4, r8\n"
        "   lsls    r1, r2, #16\n"
        "   asrs    r1, r1, #24\n"
        "   colibri_sum r5, r9\n"
        "   lsls    r1, r2, #8\n"
        "   asrs    r1, r1, #24\n"
        "   colibri_sum r6, r10\n"
        "   asrs    r1, r2, #24\n"
        "   colibri_sum r7, r11\n"
        "   mov     r0, r12\n"
        "   stm     r0!, {r4-r7}\n"
        "   mov     r12, r0\n"
        "   ldr     r1, [sp, #72]\n"
        "   adds    r3, r3, r1\n"
        "   ldr     r1, [sp, #80]\n"
        "   ldr     r2, [sp, #64]\n"
        "   cmp     r0, r2\n"
        "   beq     3f\n"
        "   b       1b\n"
        "3:\n"
        "   add     sp, #88\n"
        "   pop     {r4-r7}\n"
        "   mov     r8, r4\n"
        "   mov     r9, r5\n"
        "   mov     r10, r6\n"
        "   mov     r11, r7\n"
        "   pop     {r4-r7}\n"
        "   pop     {r1}\n"
        "   mov     lr, r1\n"
        "   .purgem colibri_add\n"
        "   .purgem colibri_row\n"
        "   .purgem colibri_rows\n"
        "   .purgem colibri_sum"
        : "+l"(r0)
        :
        : "r1", "r2", "r3", "r12", "cc", "memory");
}

#endif
