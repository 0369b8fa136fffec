/* access.h: typed views of the model's bytes and of the caller's memory block. Internal to generated code. */
#ifndef COLIBRI_ACCESS_H
#define COLIBRI_ACCESS_H

#include <stdint.h>

/* A kernel with constant shapes: one function for each shape, however often it is called. gcc 12.2 takes an address that
 * has a scaled index and no base for a null pointer: it thinks that what follows is never reached, so that a kernel
 * without other stores has no effect, and leaves its calls out. So callers learn nothing of a kernel there. */
#if defined __GNUC__ && !defined __clang__
#define COLIBRI_KERNEL static __attribute__((noipa))
#else
#define COLIBRI_KERNEL static __attribute__((noinline))
#endif

/* fp32 values in the model; the packer aligns them. */
static inline const float *colibri_floats(const uint8_t *bytes)
{
    return (const float *)(const void *)bytes;
}

/* Numbers of 16 bits in the model; the packer aligns them. */
static inline const uint16_t *colibri_shorts(const uint8_t *bytes)
{
    return (const uint16_t *)(const void *)bytes;
}

/* A buffer or a state in the memory block; the planner aligns them. */
static inline void *colibri_at(uint8_t *memory, uint32_t offset)
{
    return memory + offset;
}

#endif
