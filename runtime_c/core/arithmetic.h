/* arithmetic.h: does this program compute floats as the model needs them? Options of the compiler and modes of the
 * FPU decide, and the wrong ones change bits without a word. The test program asks first; your firmware may, too. */
#ifndef COLIBRI_ARITHMETIC_H
#define COLIBRI_ARITHMETIC_H

typedef enum colibri_arithmetic {
    COLIBRI_EXACT = 0,
    COLIBRI_FUSED = 1,   /* a * b + c rounds once: compile with -ffp-contract=off */
    COLIBRI_FLUSHED = 2, /* denormals become zero: clear the flush-to-zero mode of the FPU */
    COLIBRI_ROUNDED = 3, /* not to nearest even: restore the rounding mode of the FPU */
} colibri_arithmetic;

/* The first thing that is wrong. Compiled with the model's own options, in the caller's modes. */
colibri_arithmetic colibri_check_arithmetic(void);

#endif
