/* memory.c: the four functions that a compiler may call even in a freestanding program.
 *
 * The linker drops what is not used. Words are moved where both sides are aligned, bytes elsewhere.
 */
#include <stddef.h>
#include <stdint.h>

/* gcc recognises a copying or filling loop and calls memcpy or memset for it: here that would be a call to
 * itself. clang leaves such loops alone in freestanding code. */
#if defined(__GNUC__) && !defined(__clang__)
#define PLAIN_LOOPS __attribute__((optimize("no-tree-loop-distribute-patterns")))
#else
#define PLAIN_LOOPS
#endif

/* bytes of any type are moved as words, which the aliasing rules allow only to such a type. */
typedef uintptr_t __attribute__((may_alias)) word;

#define WORD sizeof(word)

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *left, const void *right, size_t n);

PLAIN_LOOPS void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    if ((((uintptr_t)t | (uintptr_t)f) & (WORD - 1)) == 0) {
        for (; n >= WORD; n -= WORD, t += WORD, f += WORD) {
            *(word *)(void *)t = *(const word *)(const void *)f;
        }
    }
    for (; n > 0; n--) {
        *t++ = *f++;
    }
    return to;
}

PLAIN_LOOPS void *memmove(void *to, const void *from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    /* one comparison answers both questions: is `to` in front of `from`, or behind its end? */
    if ((uintptr_t)t - (uintptr_t)f >= n) {
        return memcpy(to, from, n);
    }
    while (n > 0) {
        n--;
        t[n] = f[n];
    }
    return to;
}

PLAIN_LOOPS void *memset(void *to, int value, size_t n)
{
    unsigned char *t = to;
    const unsigned char byte = (unsigned char)value;

    if (((uintptr_t)t & (WORD - 1)) == 0) {
        const word pattern = (word)byte * ((word)-1 / 0xFF); /* the byte, repeated */

        for (; n >= WORD; n -= WORD, t += WORD) {
            *(word *)(void *)t = pattern;
        }
    }
    for (; n > 0; n--) {
        *t++ = byte;
    }
    return to;
}

PLAIN_LOOPS int memcmp(const void *left, const void *right, size_t n)
{
    const unsigned char *l = left;
    const unsigned char *r = right;

    for (; n > 0; n--, l++, r++) {
        if (*l != *r) {
            return *l < *r ? -1 : 1;
        }
    }
    return 0;
}

/* ---- the names that clang uses on Arm ------------------------------------------------------------------- */

#if defined(__ARM_EABI__) && defined(__clang__)

/* the suffix promises an alignment, of which memcpy() and memset() convince themselves. */
#define COPY(name)                                   \
    void name(void *to, const void *from, size_t n); \
    void name(void *to, const void *from, size_t n)  \
    {                                                \
        (void)memcpy(to, from, n);                   \
    }

#define MOVE(name)                                   \
    void name(void *to, const void *from, size_t n); \
    void name(void *to, const void *from, size_t n)  \
    {                                                \
        (void)memmove(to, from, n);                  \
    }

#define FILL(name)                            \
    void name(void *to, size_t n, int value); \
    void name(void *to, size_t n, int value)  \
    {                                         \
        (void)memset(to, value, n);           \
    }

#define CLEAR(name)                \
    void name(void *to, size_t n); \
    void name(void *to, size_t n)  \
    {                              \
        (void)memset(to, 0, n);    \
    }

COPY(__aeabi_memcpy)
COPY(__aeabi_memcpy4)
COPY(__aeabi_memcpy8)
MOVE(__aeabi_memmove)
MOVE(__aeabi_memmove4)
MOVE(__aeabi_memmove8)
FILL(__aeabi_memset)
FILL(__aeabi_memset4)
FILL(__aeabi_memset8)
CLEAR(__aeabi_memclr)
CLEAR(__aeabi_memclr4)
CLEAR(__aeabi_memclr8)

#endif
