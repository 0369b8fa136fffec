/* dot_w8a16.h: 8 rows of an 8-bit matrix times 16-bit activations, exactly, Armv6-M.
 *
 * Weights have 128 added, since only unsigned bytes are loaded without an index register; 128 times the activations is
 * taken off at the end. Sums, modulo 2^32, are in all registers that addition reaches. In assembler, for that.
 * Packing: [k][8] bytes, each plus 128. x: k values. |w| <= 127 and |x| <= qmax of the
 * op, chosen so that 127 * qmax * k < 2^31: no sum of weights less their 128 overflows.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 8

/* total plus the weight of a row times the activation in r0. */
#define COLIBRI_ADD_W8A16(add, total, row)     \
    "   ldrb    r4, [r1, #" row "]\n"          \
    "   muls    r4, r0\n"                      \
    "   " add " " total ", r4\n"

COLIBRI_ASSEMBLY void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                        const int16_t *restrict x, int k)
{
    register int32_t *r0 __asm__("r0") = sum;
    register const uint8_t *r1 __asm__("r1") = w;
    register const int16_t *r2 __asm__("r2") = x + k;
    register int32_t r3 __asm__("r3") = -2 * k;
    __asm__ volatile(
        "   .syntax unified\n"
        "   push    {r0, r7}\n" /* r7 may be a frame pointer */
        "   movs    r5, #0\n"
        "   movs    r6, #0\n"
        "   movs    r7, #0\n"
        "   mov     r8, r5\n"
        "   mov     r9, r5\n"
        "   mov     r10, r5\n"
        "   mov     r11, r5\n"
        "   mov     r12, r5\n"
        "   mov     lr, r5\n"
        "1: ldrsh   r0, [r2, r3]\n"
        "   add     lr, r0\n"
        COLIBRI_ADD_W8A16("adds", "r5", "0")
        COLIBRI_ADD_W8A16("adds", "r6", "1")
        COLIBRI_ADD_W8A16("adds", "r7", "2")
        COLIBRI_ADD_W8A16("add ", "r8", "3")
        COLIBRI_ADD_W8A16("add ", "r9", "4")
        COLIBRI_ADD_W8A16("add ", "r10", "5")
        COLIBRI_ADD_W8A16("add ", "r11", "6")
        COLIBRI_ADD_W8A16("add ", "r12", "7")
        "   adds    r1, #8\n"
        "   adds    r3, #2\n"
        "   bne     1b\n"
        "   pop     {r0}\n"
        "   mov     r4, lr\n"
        "   lsls    r4, r4, #7\n"
        "   subs    r5, r5, r4\n"
        "   subs    r6, r6, r4\n"
        "   subs    r7, r7, r4\n"
        "   stmia   r0!, {r5, r6, r7}\n"
        "   mov     r5, r8\n"
        "   mov     r6, r9\n"
        "   mov     r7, r10\n"
        "   subs    r5, r5, r4\n"
        "   subs    r6, r6, r4\n"
        "   subs    r7, r7, r4\n"
        "   stmia   r0!, {r5, r6, r7}\n"
        "   mov     r5, r11\n"
        "   mov     r6, r12\n"
        "   subs    r5, r5, r4\n"
        "   subs    r6, r6, r4\n"
        "   stmia   r0!, {r5, r6}\n"
        "   pop     {r7}"
        : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3)
        :
        : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

#endif
