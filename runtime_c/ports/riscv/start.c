/* start.c: from reset to main() on a 32- or 64-bit RISC-V core in machine mode, and what to say when it dies. */
#include <stddef.h>
#include <stdint.h>

#include "../fault.h"
#include "../port.h"

/* from the linker script; only the addresses mean anything. */
extern uint32_t port_stack_limit[], port_stack_top[];
extern uint32_t port_data_start[], port_data_end[];
extern const uint32_t port_data_load[];
extern uint32_t port_fast_start[], port_fast_end[];
extern const uint32_t port_fast_load[];
extern uint32_t port_bss_start[], port_bss_end[];
extern const uint32_t port_flash_start[], port_flash_end[];

int main(void);

void port_start(void);
_Noreturn void port_run(void);
_Noreturn void port_trap(const uintptr_t *registers);
void port_trap_entry(void);

/* GNU as wants the extension of the control registers named; giving it in -march would make gcc choose other
 * libraries. clang knows no such directive and needs none. */
#if defined(__clang__)
#define WITH_ZICSR(text) text
#else
#define WITH_ZICSR(text) ".option push\n\t.option arch, +zicsr\n\t" text "\n\t.option pop"
#endif

#define WRITE_CSR(name, value) __asm__ volatile(WITH_ZICSR("csrw " #name ", %0")::"r"((uintptr_t)(value)) : "memory")

static inline uintptr_t read_mcause(void)
{
    uintptr_t value;

    __asm__ volatile(WITH_ZICSR("csrr %0, mcause") : "=r"(value));
    return value;
}

static inline uintptr_t read_mepc(void)
{
    uintptr_t value;

    __asm__ volatile(WITH_ZICSR("csrr %0, mepc") : "=r"(value));
    return value;
}

static inline uintptr_t read_mtval(void)
{
    uintptr_t value;

    __asm__ volatile(WITH_ZICSR("csrr %0, mtval") : "=r"(value));
    return value;
}

/* ---- reset ---------------------------------------------------------------------------------------------- */

/* the core starts at the first address of the code, wherever the ELF says its entry is: the linker script puts
 * .vectors there. All harts of a chip may start: the first one goes on. A chip may show its flash at another address
 * when it starts (GD32VF103: at 0): so RV32, where every address can be written down, goes to where the code belongs. */
__attribute__((naked, section(".vectors"))) void port_start(void)
{
    __asm__ volatile(WITH_ZICSR("csrr t0, mhartid") "\n\t"
                     "1:\n\t"
                     "bnez t0, 1b\n\t"
                     ".option push\n\t"
                     ".option norelax\n\t"
#if __riscv_xlen == 32
                     "lui  t0, %hi(2f)\n\t"
                     "jr   %lo(2f)(t0)\n"
                     "2:\n\t"
#endif
                     "la   gp, __global_pointer$\n\t"
                     ".option pop\n\t"
                     "la   sp, port_stack_top\n\t"
                     "j    port_run");
}

#define PMP_LOCK_TOP_READ_EXECUTE 0x8Du /* locked, so that it binds machine mode; top of range; execute; read */

/* The stack lies at the bottom of its region. Where flash ends there, as in the emulator, a stack that overflows
 * writes into flash, and emulated flash is ordinary memory: so the protection unit forbids all writes to it. A
 * core without that unit traps on its registers, and then goes on behind them. */
static void protect_flash(void)
{
    __asm__ volatile(WITH_ZICSR("la    t0, 1f\n\t"
                                "csrw  mtvec, t0\n\t"
                                "csrw  pmpaddr0, %0\n\t"
                                "csrw  pmpaddr1, %1\n\t"
                                "csrw  pmpcfg0, %2\n\t"
                                ".balign 4\n"
                                "1:")
                     :
                     : "r"((uintptr_t)port_flash_start >> 2), "r"((uintptr_t)port_flash_end >> 2),
                       "r"((uintptr_t)PMP_LOCK_TOP_READ_EXECUTE << 8)
                     : "t0", "memory");
}

static void copy_words(uint32_t *to, const uint32_t *end, const uint32_t *from)
{
    while (to < end) {
        *to++ = *from++;
    }
}

void port_run(void)
{
#if defined(__riscv_flen) || defined(__riscv_vector)
    /* switch on the floating-point and vector units; round to nearest even. */
    __asm__ volatile(WITH_ZICSR("csrs mstatus, %0")::"r"((uintptr_t)0x2200) : "memory");
#endif
#if defined(__riscv_flen)
    WRITE_CSR(fcsr, 0);
#endif

    copy_words(port_data_start, port_data_end, port_data_load);
    copy_words(port_fast_start, port_fast_end, port_fast_load);
    if (&port_fast_start[0] != &port_fast_end[0]) {
        __asm__ volatile(".4byte 0x100f" ::: "memory"); /* fence.i, as .fast_code was just written */
    }
    for (uint32_t *word = port_bss_start; word < port_bss_end; word++) {
        *word = 0;
    }
    protect_flash();
    WRITE_CSR(mtvec, (uintptr_t)port_trap_entry);
    port_exit(main());
}

void port_strict(void)
{
    /* a division by zero has a result here, and unaligned accesses are the core's affair. */
}

/* ---- faults --------------------------------------------------------------------------------------------- */

#if __riscv_xlen == 32
#define STORE "sw"
#define BYTES "4"
#else
#define STORE "sd"
#define BYTES "8"
#endif

/* a full stack is one of the faults, so the handler brings its own, and keeps x1 to x31 at its start. */
#define FAULT_STACK_WORDS 256
uintptr_t port_trap_stack[FAULT_STACK_WORDS] __attribute__((aligned(16)));

#define SAVE(number) STORE " x" #number ", " BYTES "*" #number "(sp)\n\t"

__attribute__((naked, aligned(4))) void port_trap_entry(void)
{
    __asm__ volatile(WITH_ZICSR("csrw mscratch, sp\n\t"
                                "la   sp, port_trap_stack\n\t" SAVE(1) SAVE(3) SAVE(4) SAVE(5) SAVE(6) SAVE(7) SAVE(8)
                                    SAVE(9) SAVE(10) SAVE(11) SAVE(12) SAVE(13) SAVE(14) SAVE(15) SAVE(16) SAVE(17)
                                        SAVE(18) SAVE(19) SAVE(20) SAVE(21) SAVE(22) SAVE(23) SAVE(24) SAVE(25) SAVE(26)
                                            SAVE(27) SAVE(28) SAVE(29) SAVE(30)
                                                SAVE(31) "csrr t0, mscratch\n\t" STORE " t0, " BYTES "*2(sp)\n\t"
                                                         /* a fault in here must not start over for ever */
                                                         "la   t0, 2f\n\t"
                                                         "csrw mtvec, t0\n\t"
                                                         "mv   a0, sp\n\t"
                                                         "li   t0, " BYTES "*256\n\t" /* FAULT_STACK_WORDS */
                                                         "add  sp, sp, t0\n\t"
                                                         "j    port_trap\n\t"
                                                         ".balign 4\n"
                                                         "2:\n\t"
                                                         "j    2b"));
}
_Static_assert(FAULT_STACK_WORDS == 256, "port_trap_entry() knows the size");

void port_trap(const uintptr_t *registers)
{
    static const char *const names[] = {
        "zero", "lr", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
        "a6",   "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
    };

    port_fault_begin();
    port_fault_field("mcause", read_mcause());
    port_fault_field("pc", read_mepc());
    port_fault_field("mtval", read_mtval());
    port_fault_field("stack_limit", (uintptr_t)port_stack_limit);
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        port_fault_field(names[i], registers[i]);
    }
    port_fault_end();
}
