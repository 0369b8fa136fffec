/* colibri.h: what every generated model shares. The calls of one model are in its model.h.
 *
 * No call allocates. All memory is the caller's; all sizes are known at compile time (see model.h).
 */
#ifndef COLIBRI_H
#define COLIBRI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when generated code and this runtime no longer fit together. */
#define COLIBRI_API_VERSION 1

/* Alignment in bytes of the memory block and of the model. */
#define COLIBRI_ALIGN 16

/* Every status with its text: one list makes the enum and the strings. */
#define COLIBRI_STATUS_LIST(COLIBRI_X)                                                                      \
    COLIBRI_X(COLIBRI_OK, 0, "ok")                                                                          \
    COLIBRI_X(COLIBRI_BAD_ARGUMENT, -1, "a pointer is null, a count is zero, or the context was freed")     \
    COLIBRI_X(COLIBRI_BAD_ALIGNMENT, -2, "memory and model must start at a multiple of 16")                 \
    COLIBRI_X(COLIBRI_MEMORY_TOO_SMALL, -3, "the memory block is smaller than model.h says")                \
    COLIBRI_X(COLIBRI_MODEL_TOO_SHORT, -4, "the model is shorter than its header says")                     \
    COLIBRI_X(COLIBRI_MODEL_UNKNOWN, -5, "the model does not begin with COLIBRI, or its header is damaged") \
    COLIBRI_X(COLIBRI_MODEL_VERSION, -6, "the model has a format version that this code does not read")     \
    COLIBRI_X(COLIBRI_MODEL_MISMATCH, -7, "the model was generated for other shapes than this code")        \
    COLIBRI_X(COLIBRI_MODEL_DAMAGED, -8, "a checksum of the model is wrong")                                \
    COLIBRI_X(COLIBRI_BAD_TOKEN, -9, "a token is not in the vocabulary")                                    \
    COLIBRI_X(COLIBRI_CONTEXT_FULL, -10, "the context is full; reset to start again")                       \
    COLIBRI_X(COLIBRI_NOT_FINITE, -11, "an input is infinite or not a number")

typedef enum colibri_status {
#define COLIBRI_X(name, value, text) name = value,
    COLIBRI_STATUS_LIST(COLIBRI_X)
#undef COLIBRI_X
} colibri_status;

/* A model as its generated code sees it: constant, one for each model in the program. */
typedef struct colibri_model {
    const char *name;
    const uint8_t *abi_hash;     /* [16] over all shapes and offsets; model.bin carries the same */
    size_t weight_bytes;         /* where the last weight ends in model.bin */
    size_t memory_bytes;         /* length of the caller's memory block */
    uint32_t layers;             /* layers with experts */
    const uint16_t *num_experts; /* [layers] experts kept */
    uint32_t top_k;              /* experts that run for each token or sample */
    uint32_t inputs;             /* floats of a sample; 0 for token models */
    uint32_t outputs;            /* floats of a prediction, or the vocabulary size */
    uint32_t batch;              /* samples in a call of forward; 0 for token models */
    uint32_t prefill;            /* tokens that prefill takes in at once; 0 for sample models */
    uint32_t context;            /* most positions; 0 for sample models */
} colibri_model;

/* English text of a status; never NULL. */
const char *colibri_status_text(colibri_status status);

/* Check that bytes is the model.bin of this code: header, length, ABI hash, section table. Reads no weights. */
colibri_status colibri_check(const colibri_model *model, const void *bytes, size_t length);

/* colibri_check, and the checksum of every section: reads the whole model once. */
colibri_status colibri_verify(const colibri_model *model, const void *bytes, size_t length);

/* Index of the largest of count values; ties go to the lower index. */
uint32_t colibri_argmax(const float *values, uint32_t count);

/* Does this program compute floats as the model needs them? Options of the compiler and modes of the FPU decide, and
 * the wrong ones change bits without a word. The test program asks first; your firmware may, too. */
typedef enum colibri_arithmetic {
    COLIBRI_EXACT = 0,
    COLIBRI_FUSED = 1,   /* a * b + c rounds once: compile with -ffp-contract=off */
    COLIBRI_FLUSHED = 2, /* denormals become zero: clear the flush-to-zero mode of the FPU */
    COLIBRI_ROUNDED = 3, /* not to nearest even: restore the rounding mode of the FPU */
} colibri_arithmetic;

/* The first thing that is wrong. Compiled with the model's own options, in the caller's modes. */
colibri_arithmetic colibri_check_arithmetic(void);

#ifdef __cplusplus
}
#endif

#endif
