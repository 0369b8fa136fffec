/* fault.c: say where a Linux program died, or where it was when it was told to stop. */
#define _GNU_SOURCE /* names of the registers in ucontext.h */

#include "../fault.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "../port.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__) || defined(__arm__) || __riscv_xlen + 0 == 64)

#include <ucontext.h>

/* a full stack is one of the faults. The widest vector registers take some 10 KB of a signal frame. */
static unsigned char fault_stack[64 * 1024] __attribute__((aligned(16)));

#if defined(__x86_64__)

static void registers_of(const ucontext_t *context)
{
    static const struct {
        const char *name;
        int index;
    } registers[] = {
        {"pc", REG_RIP},  {"sp", REG_RSP},  {"rbp", REG_RBP}, {"rax", REG_RAX}, {"rbx", REG_RBX}, {"rcx", REG_RCX},
        {"rdx", REG_RDX}, {"rsi", REG_RSI}, {"rdi", REG_RDI}, {"r8", REG_R8},   {"r9", REG_R9},   {"r10", REG_R10},
        {"r11", REG_R11}, {"r12", REG_R12}, {"r13", REG_R13}, {"r14", REG_R14}, {"r15", REG_R15},
    };

    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        port_fault_field(registers[i].name, (uintptr_t)context->uc_mcontext.gregs[registers[i].index]);
    }
}

#elif defined(__arm__)

static void registers_of(const ucontext_t *context)
{
    const mcontext_t *at = &context->uc_mcontext;
    const struct {
        const char *name;
        unsigned long value;
    } registers[] = {
        {"pc", at->arm_pc}, {"lr", at->arm_lr}, {"sp", at->arm_sp}, {"r0", at->arm_r0},   {"r1", at->arm_r1},
        {"r2", at->arm_r2}, {"r3", at->arm_r3}, {"r4", at->arm_r4}, {"r5", at->arm_r5},   {"r6", at->arm_r6},
        {"r7", at->arm_r7}, {"r8", at->arm_r8}, {"r9", at->arm_r9}, {"r10", at->arm_r10}, {"r11", at->arm_fp},
    };

    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        port_fault_field(registers[i].name, registers[i].value);
    }
}

#elif defined(__riscv)

static void registers_of(const ucontext_t *context)
{
    static const char *const names[32] = {
        "pc", "lr", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
        "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        port_fault_field(names[i], context->uc_mcontext.__gregs[i]);
    }
}

#else

static void registers_of(const ucontext_t *context)
{
    static const char *const names[30] = {
        "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10", "x11", "x12", "x13", "x14",
        "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29",
    };

    port_fault_field("pc", context->uc_mcontext.pc);
    port_fault_field("lr", context->uc_mcontext.regs[30]);
    port_fault_field("sp", context->uc_mcontext.sp);
    for (size_t i = 0; i < 30; i++) {
        port_fault_field(names[i], context->uc_mcontext.regs[i]);
    }
}

#endif

_Noreturn static void on_signal(int number, siginfo_t *info, void *context)
{
    port_fault_begin();
    port_fault_field("signal", (uintptr_t)number);
    if (number == SIGSEGV || number == SIGBUS) {
        port_fault_field("address", (uintptr_t)info->si_addr);
    }
    registers_of(context);

    /* as port_fault_end(), but exit() may not be called in here. */
    port_write("\n", 1);
    _exit(PORT_FAULT_EXIT);
}

/* SIGTERM too: whoever ends a program that hangs wants to know where it was. */
__attribute__((constructor)) static void watch_signals(void)
{
    static const int signals[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGTERM};
    const stack_t stack = {.ss_sp = fault_stack, .ss_flags = 0, .ss_size = sizeof fault_stack};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    sigemptyset(&action.sa_mask);
    (void)sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)sigaction(signals[i], &action, NULL);
    }
}

#endif
