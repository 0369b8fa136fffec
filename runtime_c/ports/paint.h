/* paint.h: how deep a call goes into the stack, from what it leaves of a pattern below it. Only the test program uses
 * it, where no emulator watches stores.
 *
 *     paint_stack();
 *     call();
 *     depth = painted_depth();
 *
 * All three stand in one function, whose stack pointer is the same at each: a compiler for these processors moves it
 * where a function begins and ends, and passes the arguments of the calls here in registers or in a frame that is
 * there. Both become part of that function and use no stack. The depth counts from that stack pointer down to the lowest
 * four bytes that have another value than the pattern; on x86-64 the return address is part of it.
 */
#ifndef COLIBRI_PORT_PAINT_H
#define COLIBRI_PORT_PAINT_H

#include <stdint.h>

#if defined(__x86_64__)

#define PAINT_BYTES   131072 /* below the stack pointer, and the most that is seen */
#define PAINT_PATTERN 0xA5C3A5C3A5C3A5C3u
#define PAINT_STRING(x)  #x
#define PAINT_TEXT(x) PAINT_STRING(x)

/* from the top down: Windows gives the next page when the last one was touched. */
__attribute__((always_inline)) static inline void paint_stack(void)
{
    uint64_t at;
    uint64_t end;

    __asm__ volatile("movq %%rsp, %0\n\t"
                     "leaq -" PAINT_TEXT(PAINT_BYTES) "(%%rsp), %1\n"
                     "1:\n\t"
                     "subq $8, %0\n\t"
                     "movq %2, (%0)\n\t"
                     "cmpq %1, %0\n\t"
                     "ja 1b"
                     : "=&r"(at), "=&r"(end)
                     : "r"((uint64_t)PAINT_PATTERN)
                     : "cc", "memory");
}

__attribute__((always_inline)) static inline uint32_t painted_depth(void)
{
    uint64_t at;
    uint64_t depth;

    __asm__ volatile("leaq -" PAINT_TEXT(PAINT_BYTES) "(%%rsp), %0\n"
                     "1:\n\t"
                     "cmpl %2, (%0)\n\t"
                     "jne 2f\n\t"
                     "addq $4, %0\n\t"
                     "cmpq %%rsp, %0\n\t"
                     "jb 1b\n"
                     "2:\n\t"
                     "movq %%rsp, %1\n\t"
                     "subq %0, %1"
                     : "=&r"(at), "=&r"(depth)
                     : "r"((uint32_t)PAINT_PATTERN)
                     : "cc", "memory");
    return (uint32_t)depth;
}

#elif defined(__wasm__)

#define PAINT_PATTERN 0xA5C3A5C3u

/* the stack is at the bottom of the memory. */
__attribute__((always_inline)) static inline uintptr_t paint_top(void)
{
    uintptr_t top;

    __asm__ volatile(".globaltype __stack_pointer, i32\n\t"
                     "global.get __stack_pointer\n\t"
                     "local.set %0"
                     : "=r"(top)
                     :
                     : "memory");
    return top;
}

__attribute__((always_inline)) static inline void paint_stack(void)
{
    for (uintptr_t at = paint_top(); at >= sizeof(uint32_t); at -= sizeof(uint32_t)) {
        *(volatile uint32_t *)(at - sizeof(uint32_t)) = PAINT_PATTERN;
    }
}

__attribute__((always_inline)) static inline uint32_t painted_depth(void)
{
    const uintptr_t top = paint_top();
    uintptr_t at = 0;

    while (at < top && *(const volatile uint32_t *)at == PAINT_PATTERN) {
        at += sizeof(uint32_t);
    }
    return top - at;
}

#else
#error "a stack is painted on x86-64 and in WebAssembly"
#endif

#endif
