/* fault.c: say where an Arm M-profile program died. */
#include "layout.h"

#include <stdint.h>

#include "../fault.h"

#if !defined(PORT_TRAP_SVC)

#define REGISTER(address) (*(volatile uint32_t *)(address))

#define SCB_CCR REGISTER(0xE000ED14u)
#define SCB_CFSR REGISTER(0xE000ED28u)
#define SCB_HFSR REGISTER(0xE000ED2Cu)
#define SCB_MMFAR REGISTER(0xE000ED34u)
#define SCB_BFAR REGISTER(0xE000ED38u)

#define CCR_UNALIGNED_TRAP (1u << 3)
#define CFSR_MMARVALID (1u << 7)
#define CFSR_BFARVALID (1u << 15)
/* the core could not even save its registers. */
#define CFSR_STACKING ((1u << 4) | (1u << 12) | (PORT_STACK_LIMIT_REGISTER ? 1u << 20 : 0u))

/* What the core pushes when it takes an exception. */
struct exception_frame {
    uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
};

/* What port_fault_entry() adds. */
struct saved_registers {
    uint32_t r4, r5, r6, r7, r8, r9, r10, r11;
};

/* a full stack is one of the faults, so the handler brings its own. */
#define FAULT_STACK_WORDS 128
uint32_t port_fault_stack[FAULT_STACK_WORDS] __attribute__((aligned(8)));

void port_fault(const struct exception_frame *frame, const struct saved_registers *saved, uint32_t exception);

__attribute__((naked)) void port_fault_entry(void)
{
    __asm__ volatile("mrs  r0, msp\n\t"
#if PORT_STACK_LIMIT_REGISTER
                     "movs r1, #0\n\t"
                     "msr  msplim, r1\n\t"
#endif
                     "ldr  r1, =port_fault_stack + 512\n\t" /* its end: 4 * FAULT_STACK_WORDS */
                     "msr  msp, r1\n\t"
#if PORT_MAINLINE
                     "push {r4-r11}\n\t"
#else
                     "mov  r2, r10\n\t" /* Armv6-M pushes no high registers */
                     "mov  r3, r11\n\t"
                     "push {r2, r3}\n\t"
                     "mov  r2, r8\n\t"
                     "mov  r3, r9\n\t"
                     "push {r2, r3}\n\t"
                     "push {r4-r7}\n\t"
#endif
                     "mov  r1, sp\n\t"
                     "mrs  r2, ipsr\n\t"
                     "bl   port_fault\n\t"
                     ".ltorg");
}
_Static_assert(FAULT_STACK_WORDS * 4 == 512, "port_fault_entry() knows the size");

static int is_code(uint32_t address)
{
    return (address >= (uintptr_t)port_code_start && address < (uintptr_t)port_code_end) ||
           (address >= (uintptr_t)port_fast_start && address < (uintptr_t)port_fast_end);
}

/* The lowest word of a full stack that looks like a return address: who called last, and left a trace. */
static uint32_t last_caller(void)
{
    for (const uint32_t *word = port_stack_limit; word < port_stack_top; word++) {
        const uint32_t code = *word & ~1u;

        if ((*word & 1u) != 0 && is_code(code)) {
            return *word;
        }
    }
    return 0;
}

void port_fault(const struct exception_frame *frame, const struct saved_registers *saved, uint32_t exception)
{
    const uintptr_t sp = (uintptr_t)frame;
#if PORT_MAINLINE
    const uint32_t cfsr = SCB_CFSR;
#else
    const uint32_t cfsr = 0; /* there is none: every fault is a hard fault */
#endif
    const int readable = (cfsr & CFSR_STACKING) == 0 && sp >= (uintptr_t)port_stack_limit &&
                         sp + sizeof *frame <= (uintptr_t)port_stack_top;

#if PORT_MAINLINE
    /* the compiler may put the line together by unaligned stores, and a fault in here would be the last. */
    SCB_CCR &= ~CCR_UNALIGNED_TRAP;
#endif

    port_fault_begin();
    port_fault_field("exception", exception);
    if (readable) {
        port_fault_field("pc", frame->pc);
        port_fault_field("lr", frame->lr);
    } else {
        port_fault_field("caller", last_caller());
    }
    port_fault_field("sp", sp);
    port_fault_field("stack_limit", (uintptr_t)port_stack_limit);
#if PORT_MAINLINE
    port_fault_field("cfsr", cfsr);
    port_fault_field("hfsr", SCB_HFSR);
    if ((cfsr & CFSR_MMARVALID) != 0) {
        port_fault_field("address", SCB_MMFAR);
    } else if ((cfsr & CFSR_BFARVALID) != 0) {
        port_fault_field("address", SCB_BFAR);
    }
#endif
    if (readable) {
        port_fault_field("r0", frame->r0);
        port_fault_field("r1", frame->r1);
        port_fault_field("r2", frame->r2);
        port_fault_field("r3", frame->r3);
        port_fault_field("r12", frame->r12);
        port_fault_field("xpsr", frame->xpsr);
    }
    port_fault_field("r4", saved->r4);
    port_fault_field("r5", saved->r5);
    port_fault_field("r6", saved->r6);
    port_fault_field("r7", saved->r7);
    port_fault_field("r8", saved->r8);
    port_fault_field("r9", saved->r9);
    port_fault_field("r10", saved->r10);
    port_fault_field("r11", saved->r11);
    port_fault_end();
}

#endif
