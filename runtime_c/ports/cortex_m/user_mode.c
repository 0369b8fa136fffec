/* user_mode.c: the same image as a Linux program, at the addresses of the real chip.
 *
 * A user-mode emulator loads each segment where the board has it and maps nothing else, so an access outside
 * the board's memory ends in a signal. There are no system registers here: faults arrive as Linux signals.
 */
#include "layout.h"

#include <stdint.h>

#include "../fault.h"
#include "../port.h"

#if defined(PORT_TRAP_SVC)

/* ---- Linux, 32-bit Arm (arch/arm/include/uapi in its source) -------------------------------------------- */

enum { SYSTEM_CALL_SIGACTION = 174, SYSTEM_CALL_SIGALTSTACK = 186 };
enum { SIGNAL_INFO = 0x4, SIGNAL_ON_STACK = 0x08000000 };
enum { SIGNAL_ILL = 4, SIGNAL_TRAP = 5, SIGNAL_BUS = 7, SIGNAL_FPE = 8, SIGNAL_SEGV = 11, SIGNAL_TERM = 15 };

struct signal_action {
    uintptr_t handler;
    uint32_t flags;
    uintptr_t restorer;
    uint32_t mask[2];
};

struct signal_stack {
    void *base;
    int32_t flags;
    uint32_t size;
};

struct signal_info {
    int32_t number, error, code;
    uintptr_t address;
};

struct signal_context {
    uint32_t flags, link;
    struct signal_stack stack;
    uint32_t trap, error, mask;
    uint32_t r[11], fp, ip, sp, lr, pc, cpsr;
};

static void system_call(uintptr_t number, uintptr_t first, uintptr_t second, uintptr_t third, uintptr_t fourth)
{
    register uintptr_t r0 __asm__("r0") = first;
    register uintptr_t r1 __asm__("r1") = second;
    register uintptr_t r2 __asm__("r2") = third;
    register uintptr_t r3 __asm__("r3") = fourth;

    /* the number goes into r7, which may be the frame pointer of this very function. */
    __asm__ volatile("push {r7}\n\t"
                     "mov  r7, %[number]\n\t"
                     "svc  0\n\t"
                     "pop  {r7}"
                     : "+r"(r0)
                     : "r"(r1), "r"(r2), "r"(r3), [number] "r"(number)
                     : "memory", "cc");
}

/* ---- faults --------------------------------------------------------------------------------------------- */

static uint32_t fault_stack[1024] __attribute__((aligned(8)));

static void on_signal(int32_t number, const struct signal_info *info, const struct signal_context *context)
{
    static const char *const names[11] = {"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10"};

    port_fault_begin();
    port_fault_field("signal", (uintptr_t)number);
    port_fault_field("pc", context->pc);
    port_fault_field("lr", context->lr);
    port_fault_field("sp", context->sp);
    port_fault_field("stack_limit", (uintptr_t)port_stack_limit);
    if (number == SIGNAL_SEGV || number == SIGNAL_BUS) {
        port_fault_field("address", info->address);
    }
    for (uint32_t i = 0; i < 11; i++) {
        port_fault_field(names[i], context->r[i]);
    }
    port_fault_field("r11", context->fp);
    port_fault_field("r12", context->ip);
    port_fault_field("cpsr", context->cpsr);
    port_fault_end();
}

static void watch_signals(void)
{
    /* SIGTERM too: whoever ends a program that hangs wants to know where it was. */
    static const uint8_t signals[] = {SIGNAL_ILL, SIGNAL_TRAP, SIGNAL_BUS, SIGNAL_FPE, SIGNAL_SEGV, SIGNAL_TERM};
    const struct signal_stack stack = {fault_stack, 0, sizeof fault_stack};
    const struct signal_action action = {(uintptr_t)on_signal, SIGNAL_INFO | SIGNAL_ON_STACK, 0, {0, 0}};

    system_call(SYSTEM_CALL_SIGALTSTACK, (uintptr_t)&stack, 0, 0, 0);
    for (uint32_t i = 0; i < sizeof signals; i++) {
        system_call(SYSTEM_CALL_SIGACTION, signals[i], (uintptr_t)&action, 0, sizeof action.mask);
    }
}

/* ---- start ---------------------------------------------------------------------------------------------- */

_Noreturn void port_run(void);

/* the loader has filled .data and cleared .bss; only the stack is still its own. */
__attribute__((naked)) void port_start(void)
{
    /* Armv6-M has no such load, but what runs this image is no such core. */
    __asm__ volatile(".syntax unified\n\t"
                     ".arch armv7-m\n\t"
                     "ldr sp, =port_stack_top\n\t"
                     "bl  port_run\n\t"
                     ".ltorg");
}

void port_run(void)
{
    watch_signals();
    port_exit(main());
}

void port_strict(void)
{
    /* those switches are system registers. */
}

#endif
