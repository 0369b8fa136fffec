/* arithmetic.c: are floats computed as they must be? Operands are volatile, so that the processor computes and not the compiler. */
#include "colibri.h"

#include "kernels/portable/float32.h"

/* There where code is for more instructions than the compiler's options say: those may fuse what is not fused here. */
#if defined __x86_64__ && defined __has_include
#if __has_include("processors/x86_64.h")
#include "processors/x86_64.h"
#define COLIBRI_FUSES_ELSEWHERE(a, b) (colibri_has_v3() && colibri_fuses_v3(a, b))
#endif
#endif
#ifndef COLIBRI_FUSES_ELSEWHERE
#define COLIBRI_FUSES_ELSEWHERE(a, b) false
#endif

colibri_arithmetic colibri_check_arithmetic(void)
{
    static const volatile float more = 0x1.001p+0f; /* its square is 0x1.002001p+0: a bit more than a float has */
    static const volatile float square = 0x1.002p+0f;
    static const volatile float small = 0x1p-100f;
    static const volatile float denormal = 0x1p-140f;
    static const volatile float large = 0x1p+40f;
    static const volatile float even = 1.0f;
    static const volatile float odd = 0x1.000002p+0f;
    static const volatile float half = 0x1p-24f; /* of the distance between the two above */

    const float a = more;
    const float b = square;
    if (even + half != 1.0f || odd + half != 0x1.000004p+0f) {
        return COLIBRI_ROUNDED; /* first, since the last one takes it for granted */
    }
    if (small / large == 0.0f || denormal * large == 0.0f) {
        return COLIBRI_FLUSHED;
    }
    if (a * a - b != 0.0f || COLIBRI_FUSES_ELSEWHERE(a, b)) {
        return COLIBRI_FUSED;
    }
    return COLIBRI_EXACT;
}
