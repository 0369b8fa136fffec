/* qemu_api.h: the part of QEMU's plugin interface that observer.c calls, declared here because no
 * distribution packages QEMU's own header.
 *
 * This is version 1 of the interface (QEMU 6.0 to 9.0). Later versions dropped the inline operations below;
 * QEMU says which versions it accepts when it installs a plugin, and observer.c compares.
 */
#ifndef COLIBRI_QEMU_API_H
#define COLIBRI_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_API_VERSION 1

#define QEMU_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t; /* what an access is; asked by the functions below */

struct qemu_plugin_tb;   /* a translated block: instructions that run one after the other */
struct qemu_plugin_insn; /* one guest instruction; valid while its block is being translated */

typedef struct qemu_info {
    const char *target_name;
    struct {
        int min; /* oldest plugin version that this QEMU loads */
        int cur; /* its own */
    } version;
    bool system_emulation;
    union {
        struct {
            int smp_vcpus;
            int max_vcpus;
        } system;
    };
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*qemu_plugin_tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *block);
typedef void (*qemu_plugin_insn_exec_cb)(unsigned int cpu, void *data);
typedef void (*qemu_plugin_mem_cb)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);

/* QEMU looks these two up. */
extern QEMU_EXPORT int qemu_plugin_version;
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

/* QEMU provides these. */
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_trans_cb callback);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, enum qemu_plugin_op op, void *to,
                                              uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_insn_exec_cb callback,
                                            enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_mem_cb callback,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *data);
size_t                   qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t                 qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
const void              *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t                   qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
bool                     qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
unsigned int             qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);

#endif
