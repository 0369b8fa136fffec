/* soft_arithmetic.c: floats in integers against the compiler's, on a core without an FPU; leaves with the line of the first
 * difference, or with 0.
 */
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_float.h"
#include "kernels/portable/soft_store_grouped.h"
#include "kernels/soft_float/rms_norm.h"
#include "kernels/soft_float/rows_int8.h"
#include "port.h"

enum { COUNT = 64, TURNS = 400 };

static uint32_t seed = 1;

static uint32_t draw(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed ^ seed >> 15;
}

/* kind 0: any bits; 1: near 1; 2: near each other, of other magnitudes; 3: few bits, so that ties are met. */
static float number(uint32_t kind)
{
    const uint32_t sign = draw() & 0x80000000u;
    switch (kind) {
    case 0:
        return colibri_from_bits((int32_t)draw());
    case 1:
        return colibri_from_bits((int32_t)(sign | (0x3F7FFF00 + draw() % 512)));
    case 2:
        return colibri_from_bits((int32_t)(sign | ((100 + draw() % 50) << 23 | draw() % 64)));
    default:
        return colibri_from_bits((int32_t)(sign | ((115 + draw() % 24) << 23 | (draw() % 0x1000) << 11)));
    }
}

static int differ(float a, float b)
{
    return colibri_bits(colibri_canonical(a)) != colibri_bits(colibri_canonical(b));
}

#if defined(__thumb__) && !defined(__thumb2__) && defined(__OPTIMIZE__)
/* Whether a call of what takes the upper registers leaves them as they were. */
static int registers_kept(int32_t *sums, const int8_t *x, const int32_t *weights)
{
    uint32_t found;
    colibri_dot_fours_int8(sums, x, x, 4, 4);
    __asm__ volatile(
        "   .syntax unified\n"
        "   mov     r0, r8\n"
        "   mov     r1, r9\n"
        "   mov     r2, r10\n"
        "   mov     r3, r11\n"
        "   push    {r0, r1, r2, r3}\n"
        "   movs    r0, #18\n"
        "   mov     r8, r0\n"
        "   movs    r0, #19\n"
        "   mov     r9, r0\n"
        "   movs    r0, #20\n"
        "   mov     r10, r0\n"
        "   movs    r0, #21\n"
        "   mov     r11, r0\n"
        "   movs    r0, %[sums]\n"
        "   movs    r1, %[x]\n"
        "   movs    r2, %[x]\n"
        "   movs    r3, #4\n"
        "   push    {r3}\n" /* the fifth argument, and one place more, since the stack is aligned to 8 */
        "   push    {r3}\n"
        "   bl      colibri_dot_fours_int8\n"
        "   movs    r0, %[sums]\n"
        "   movs    r1, %[weights]\n"
        "   movs    r2, %[x]\n"
        "   movs    r3, #4\n"
        "   bl      colibri_sum_fours_int8\n"
        "   add     sp, #8\n"
        "   mov     r0, r8\n"
        "   subs    r0, #18\n"
        "   mov     r1, r9\n"
        "   subs    r1, #19\n"
        "   orrs    r0, r1\n"
        "   mov     r1, r10\n"
        "   subs    r1, #20\n"
        "   orrs    r0, r1\n"
        "   mov     r1, r11\n"
        "   subs    r1, #21\n"
        "   orrs    r0, r1\n"
        "   movs    %[found], r0\n"
        "   pop     {r0, r1, r2, r3}\n"
        "   mov     r8, r0\n"
        "   mov     r9, r1\n"
        "   mov     r10, r2\n"
        "   mov     r11, r3\n"
        : [found] "=&l"(found)
        : [sums] "l"(sums), [x] "l"(x), [weights] "l"(weights)
        : "r0", "r1", "r2", "r3", "r12", "lr", "cc", "memory");
    colibri_sum_fours_int8(sums, weights, x, 4, 4);
    return found == 0;
}
#endif

int main(void)
{
    static float x[COUNT], y[COUNT];
    static int32_t sums[COUNT];
    static uint16_t scales[COUNT];
    for (int turn = 0; turn < TURNS; turn++) {
        const uint32_t kind = (uint32_t)turn % 4;
        const float factor = number(turn % 8 < 4 ? kind : 3);
        for (int i = 0; i < COUNT; i++) {
            x[i] = number(kind);
            const float other = turn % 16 < 12 ? number(kind) : -x[i] * 0.99999994f;
            if (differ(colibri_soft_times(x[i], other), x[i] * other)) {
                return __LINE__;
            }
            if (differ(colibri_soft_add(x[i], other), x[i] + other)) {
                return __LINE__;
            }
            if (differ(colibri_soft_over(x[i], other), x[i] / other)) {
                return __LINE__;
            }
            sums[i] = (int32_t)draw() >> (draw() % 32);
            scales[i] = (uint16_t)(draw() % 0x7F80);
            if (differ(colibri_soft_from_int(sums[i]), (float)sums[i])) {
                return __LINE__;
            }
            const float small = colibri_from_bits((int32_t)(0x30000000 + draw() % 0x20000000));
            if (differ(colibri_from_bits((int32_t)colibri_soft_square((uint32_t)colibri_bits(small))), small * small)) {
                return __LINE__;
            }
        }
        colibri_soft_scale_row(y, x, factor, COUNT);
        for (int i = 0; i < COUNT; i++) {
            if (differ(y[i], x[i] * factor)) {
                return __LINE__;
            }
        }
        colibri_store_grouped(y, sums, scales, NULL, factor, COUNT);
        for (int i = 0; i < COUNT; i++) {
            if (differ(y[i], ((float)sums[i] * colibri_from_upper(scales[i])) * factor)) {
                return __LINE__;
            }
        }
    }
#if defined(__thumb__) && !defined(__thumb2__) && defined(__OPTIMIZE__)
    static const int8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static const int32_t weights[4] = {1, 2, 3, 4};
    if (!registers_kept(sums, bytes, weights)) {
        return __LINE__;
    }
#endif
    return 0;
}
