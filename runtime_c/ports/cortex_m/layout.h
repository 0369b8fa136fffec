/* layout.h: what the linker script of a Cortex-M image tells the start-up. Only the addresses mean anything. */
#ifndef COLIBRI_CORTEX_M_LAYOUT_H
#define COLIBRI_CORTEX_M_LAYOUT_H

#include <stdint.h>

extern uint32_t port_stack_limit[]; /* lowest word of the stack; nothing of ours lies below it */
extern uint32_t port_stack_top[];
extern uint32_t port_data_start[], port_data_end[];
extern const uint32_t port_data_load[]; /* the first values of .data, in flash */
extern uint32_t port_fast_start[], port_fast_end[]; /* kernels that run from RAM */
extern const uint32_t port_fast_load[];              /* and where they are in flash */
/* what switches memory on, or 0: weak, so that the compiler does not take an address for never null. */
extern uint32_t port_clock_register[] __attribute__((weak)), port_clock_bits[] __attribute__((weak));
extern uint32_t port_bss_start[], port_bss_end[];
extern const uint32_t port_code_start[], port_code_end[];

/* Armv6-M (Cortex-M0, M0+) has few of the system registers of the larger cores; Armv8-M has a stack limit of its own. */
#define PORT_MAINLINE (__ARM_ARCH_ISA_THUMB >= 2)
#define PORT_STACK_LIMIT_REGISTER (PORT_MAINLINE && __ARM_ARCH >= 8)

int main(void);

/* The first instruction of the image. */
_Noreturn void port_start(void);

/* Every exception ends here: nothing in these programs uses interrupts. */
void port_fault_entry(void);

#endif
