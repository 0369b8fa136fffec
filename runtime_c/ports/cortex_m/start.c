/* start.c: from reset to main() on an Arm M-profile core, real or emulated. */
#include "layout.h"

#include <stdint.h>

#include "../port.h"

#if !defined(PORT_TRAP_SVC)

/* ---- the few system registers that matter here (ArmV7-M Architecture Reference Manual, B3) -------------- */

#define REGISTER(address) (*(volatile uint32_t *)(address))

#define SCB_VTOR REGISTER(0xE000ED08u)
#define SCB_CCR REGISTER(0xE000ED14u)
#define SCB_CPACR REGISTER(0xE000ED88u)
#define MPU_TYPE REGISTER(0xE000ED90u)
#define MPU_CTRL REGISTER(0xE000ED94u)
#define MPU_RNR REGISTER(0xE000ED98u)
#define MPU_RBAR REGISTER(0xE000ED9Cu)
#define MPU_RASR REGISTER(0xE000EDA0u)

#define CCR_UNALIGNED_TRAP (1u << 3)
#define CCR_DIVISION_TRAP (1u << 4)
#define CPACR_FPU (0xFu << 20) /* full access to coprocessors 10 and 11 */
#define MPU_TYPE_REGIONS (0xFFu << 8)
#define MPU_CTRL_ENABLE (1u << 0)
#define MPU_CTRL_BACKGROUND (1u << 2) /* addresses outside all regions keep the default map */
#define MPU_RASR_ENABLE (1u << 0)
#define MPU_RASR_NO_EXECUTE (1u << 28) /* with access bits of zero: no access at all */

#define STACK_GUARD_LOG2 15u /* 32 KB, more than any one frame of this code takes */

/* ---- vectors -------------------------------------------------------------------------------------------- */

typedef void (*handler)(void);

struct vectors {
    uint32_t *stack_top;
    handler exceptions[15]; /* reset is number 1 */
};

extern const struct vectors port_vectors;

__attribute__((section(".vectors"), used)) const struct vectors port_vectors = {
    port_stack_top,
    {
        port_start,       /* reset */
        port_fault_entry, /* non-maskable interrupt */
        port_fault_entry, /* hard fault */
        port_fault_entry, /* memory management fault */
        port_fault_entry, /* bus fault */
        port_fault_entry, /* usage fault */
        0, 0, 0, 0,       /* reserved */
        port_fault_entry, /* supervisor call */
        port_fault_entry, /* debug monitor */
        0,                /* reserved */
        port_fault_entry, /* pending supervisor call */
        port_fault_entry, /* system tick */
    },
};

/* ---- reset ---------------------------------------------------------------------------------------------- */

static void barrier(void)
{
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

static void switch_memory_on(void)
{
    volatile uint32_t *const clock = port_clock_register;

    if ((uintptr_t)clock != 0) {
        *clock |= (uint32_t)(uintptr_t)port_clock_bits;
        (void)*clock; /* ST RM0433, clock enabling delays: read back before the first use */
        barrier();
    }
}

static void copy_words(uint32_t *to, const uint32_t *end, const uint32_t *from)
{
    while (to < end) {
        *to++ = *from++;
    }
}

#if PORT_STACK_LIMIT_REGISTER

/* A push below the limit is a fault at once (Armv8-M Architecture Reference Manual, MSPLIM). */
static void guard_stack(void)
{
    __asm__ volatile("msr msplim, %0" ::"r"(port_stack_limit));
}

#else

/* The stack lies at the bottom of its region. What is below is a hole on most chips, where a write faults by
 * itself; some emulated boards accept it silently, so the protection unit forbids it everywhere. */
static void guard_stack(void)
{
    const uintptr_t limit = (uintptr_t)port_stack_limit;
    const uintptr_t size = (uintptr_t)1 << STACK_GUARD_LOG2;

    if ((MPU_TYPE & MPU_TYPE_REGIONS) == 0 || limit < size || (limit & (size - 1)) != 0) {
        return;
    }
    MPU_RNR = 0;
    MPU_RBAR = limit - size;
    MPU_RASR = MPU_RASR_NO_EXECUTE | ((STACK_GUARD_LOG2 - 1u) << 1) | MPU_RASR_ENABLE;
    MPU_CTRL = MPU_CTRL_BACKGROUND | MPU_CTRL_ENABLE;
    barrier();
}

#endif

void port_start(void)
{
#if PORT_MAINLINE
    SCB_VTOR = (uint32_t)(uintptr_t)&port_vectors; /* a small core has it only where its maker wants */
#endif

#if defined(__ARM_FP)
    /* before any code that the compiler may have given a floating-point instruction. */
    SCB_CPACR |= CPACR_FPU;
    barrier();
#endif

    switch_memory_on();
    copy_words(port_data_start, port_data_end, port_data_load);
    copy_words(port_fast_start, port_fast_end, port_fast_load);
    barrier();
    for (uint32_t *word = port_bss_start; word < port_bss_end; word++) {
        *word = 0;
    }
    guard_stack();
    port_exit(main());
}

void port_strict(void)
{
#if PORT_MAINLINE
    SCB_CCR |= CCR_UNALIGNED_TRAP | CCR_DIVISION_TRAP;
    barrier();
#endif /* Armv6-M knows no division, and never an unaligned access */
}

#endif
