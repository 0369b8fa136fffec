/* echo.c: a device that answers its requests, and dies on request. */
#include <stddef.h>
#include <stdint.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "frames.h"
#include "port.h"
#if defined(__linux__)
#include "posix/stack.h"
#endif

/* a function of its own in the image, so that the host can name it. */
#define APART __attribute__((noinline))

void     marker(void);
void     counted_loop(uint32_t times);
uint32_t access_at(uintptr_t address);
uint32_t vector_at(uintptr_t address);
void     undefined_instruction(void);
uint32_t overflow_stack(uint32_t depth);
void     endless_loop(void);

static uint32_t initialised[2] = {0x12345678u, 0x9ABCDEF0u};
static uint32_t zeroed[2];

__attribute__((section(MEMORY_SECTION), used)) static uint32_t arena[256];

static volatile uint32_t never;
static volatile uint32_t quotient;

/* The host counts instructions between two calls of this. */
APART void marker(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Two instructions that each run `times` times. */
APART void counted_loop(uint32_t times)
{
#if defined(__x86_64__)
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(times)::"cc");
#elif defined(__riscv)
    __asm__ volatile("1: addi %0, %0, -1\n\tbnez %0, 1b" : "+r"(times));
#elif defined(__aarch64__)
    __asm__ volatile("1: subs %w0, %w0, #1\n\tb.ne 1b" : "+r"(times)::"cc");
#else
    __asm__ volatile(".syntax unified\n1: subs %0, %0, #1\n\tbne 1b" : "+l"(times)::"cc");
#endif
}

APART uint32_t access_at(uintptr_t address)
{
    return *(volatile const uint32_t *)address;
}

/* Eight elements of one byte each, which no address is unaligned for. */
APART uint32_t vector_at(uintptr_t address)
{
#if defined(__aarch64__)
    return vaddlv_u8(vld1_u8((const uint8_t *)address));
#else
    return *(volatile const uint8_t *)address;
#endif
}

APART void undefined_instruction(void)
{
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#elif defined(__riscv)
    __asm__ volatile(".balign 4\n\t.4byte 0");
#elif defined(__aarch64__)
    __asm__ volatile(".inst 0");
#else
    __asm__ volatile("udf #0");
#endif
}

APART uint32_t overflow_stack(uint32_t depth)
{
    volatile uint32_t frame[32];

    for (uint32_t i = 0; i < 32; i++) {
        frame[i] = depth;
    }
    return never == 0 ? overflow_stack(depth + 1) + frame[depth % 32] : 0;
}

APART void endless_loop(void)
{
    while (never == 0) {
        /* until the host loses patience */
    }
}

static int answer_requests(void)
{
    struct requests requests = {0};
    struct frames   frames   = {0};

    for (;;) {
        uint32_t                 op = 0, count = 0, word = 0;
        const enum request_state state = request_next(&requests, &op, &count);

        if (state == REQUEST_END) {
            return 42;
        }
        if (state == REQUEST_DAMAGED) {
            return 43;
        }
        switch (op) {
        case 'E': /* send the payload back */
            frame_begin(&frames, 'E', -7, count);
            while (request_word(&requests, &word)) {
                frame_word(&frames, word);
            }
            if (!request_end(&requests)) {
                return 44;
            }
            frame_end(&frames);
            break;

        case 'V': /* what the start-up made of the variables */
            (void)request_end(&requests);
            arena[255] = 0xA0A0A0A0u;
            frame_begin(&frames, 'V', 0, 4);
            frame_word(&frames, initialised[0]);
            frame_word(&frames, initialised[1]++);
            frame_word(&frames, zeroed[0] + zeroed[1]);
            frame_word(&frames, *(volatile uint32_t *)&arena[255]);
            frame_end(&frames);
            break;

        case 'T': /* text on the console that is no frame */
            (void)request_end(&requests);
            port_write("@ home, @ work: no frames\n", 26);
            break;

        case 'C': /* count */
            (void)request_word(&requests, &word);
            (void)request_end(&requests);
            marker();
            counted_loop(word);
            marker();
            break;

        case 'A': /* read an address; a second word holds its upper half */
            {
                uint64_t address;
                uint32_t upper = 0;

                (void)request_word(&requests, &word);
                (void)request_word(&requests, &upper);
                (void)request_end(&requests);
                address = (uint64_t)upper << 32 | word;
                (void)access_at((uintptr_t)address);
            }
            break;

        case 'M': /* read one byte behind a word */
            (void)request_end(&requests);
            (void)access_at((uintptr_t)&arena[1] + 1);
            quotient = vector_at((uintptr_t)&arena[1] + 1);
            break;

        case 'S':
            (void)request_end(&requests);
            port_strict();
            break;

        case 'D': /* divide by zero */
            (void)request_end(&requests);
            quotient = 7u / never;
            break;

        case 'U':
            undefined_instruction();
            break;

        case 'O':
            (void)overflow_stack(0);
            break;

        case 'L':
            endless_loop();
            break;

        default:
            return 45;
        }
    }
}

int main(void)
{
#if defined(__linux__)
    return port_on_stack(answer_requests);
#else
    return answer_requests();
#endif
}
