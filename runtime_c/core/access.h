/* access.h: typed views of the model's bytes and of the caller's memory block. Internal to generated code. */
#ifndef COLIBRI_ACCESS_H
#define COLIBRI_ACCESS_H

#include <stdint.h>

/* A kernel with constant shapes: one function for each shape, however often it is called. */
#define COLIBRI_KERNEL static __attribute__((noinline))

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
