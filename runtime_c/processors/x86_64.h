/* x86_64.h: what an x86-64 processor has, and what its system saves.
 *
 * Bits of cpuid and xgetbv: Intel SDM, volume 2, CPUID, and volume 1, chapter 13. Levels: x86-64 psABI.
 */
#ifndef COLIBRI_X86_64_H
#define COLIBRI_X86_64_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether the system saves these parts of the registers: bits of XCR0. The processor must have OSXSAVE. */
static inline bool colibri_saves(uint32_t parts)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & parts) == parts;
}

/* x86-64-v3: AVX, AVX2, BMI1, BMI2, F16C, FMA, LZCNT, MOVBE, with the registers of AVX. */
static inline bool colibri_has_v3(void)
{
    const uint32_t first = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29; /* FMA, MOVBE, OSXSAVE, AVX, F16C */
    const uint32_t extended = 1u << 3 | 1u << 5 | 1u << 8;                       /* BMI1, AVX2, BMI2 */
    const uint32_t lzcnt = 1u << 5;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first) {
        return false;
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & extended) != extended) {
        return false;
    }
    if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || (c & lzcnt) != lzcnt) {
        return false;
    }
    return colibri_saves(1u << 1 | 1u << 2); /* XMM, YMM */
}

/* Whether the compiler's options let code for v3 round a * a - b once, where that is not 0; the processor has v3. */
__attribute__((target("arch=x86-64-v3"))) static inline bool colibri_fuses_v3(float a, float b)
{
    return a * a - b != 0.0f;
}

#endif
