/* access.h: typed views of the model's bytes and of the caller's memory block. Internal to generated code. */
#ifndef COLIBRI_ACCESS_H
#define COLIBRI_ACCESS_H

#include <stdint.h>

/* A kernel with constant shapes: one function for each shape, however often it is called. Where gcc vectorises, what it
 * learns of a kernel for its callers can be wrong: gcc 12.2 took one that stores for one without effect, and left the
 * call out. There callers learn nothing. */
#if defined __GNUC__ && !defined __clang__ && \
    (defined __SSE2__ || defined __ARM_NEON || defined __ARM_FEATURE_MVE || defined __riscv_vector)
#define COLIBRI_KERNEL static __attribute__((noipa))
#else
#define COLIBRI_KERNEL static __attribute__((noinline))
#endif

/* fp32 values in the model; the packer aligns them. */
static inline const float *colibri_floats(const uint8_t *bytes)
{
    return (const float *)(const void *)bytes;
}

/* A buffer or a state in the memory block; the planner aligns them. */
static inline void *colibri_at(uint8_t *memory, uint32_t offset)
{
    return memory + offset;
}

#endif
