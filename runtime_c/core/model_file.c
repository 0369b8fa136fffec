/* model_file.c: is this the model.bin that the generated code was made for?
 *
 * All words are little-endian. Header: 0 magic, 8 version, 12 its length, 16 u64 length of the file, 24 u64 offset of
 * the section table, 32 number of sections, 36 CRC-32 of the table, 40 ABI hash, 60 CRC-32 of all before. Entry of the
 * table: 0 u64 offset, 8 u64 length, 16 CRC-32 of that section.
 */
#include "colibri.h"

enum {
    HEADER_BYTES = 64,
    HEADER_CHECKED = 60, /* the last word is the checksum of those before */
    ENTRY_BYTES = 32,
    FORMAT_VERSION = 2,
};

static uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t read_u64(const uint8_t *p)
{
    return read_u32(p) | (uint64_t)read_u32(p + 4) << 32;
}

static bool equal(const uint8_t *a, const uint8_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

/* CRC-32 as in zlib, four bits at a time: a table of 64 bytes instead of 1,024. */
static uint32_t crc32(const uint8_t *bytes, size_t count)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < count; i++) {
        crc = table[(crc ^ bytes[i]) & 15] ^ crc >> 4;
        crc = table[(crc ^ bytes[i] >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

colibri_status colibri_check(const colibri_model *model, const void *bytes, size_t length)
{
    static const uint8_t magic[8] = {'C', 'O', 'L', 'I', 'B', 'R', 'I', 0};
    const uint8_t *header = bytes;
    if (model == NULL || bytes == NULL) {
        return COLIBRI_BAD_ARGUMENT;
    }
    if ((uintptr_t)bytes % COLIBRI_ALIGN != 0) {
        return COLIBRI_BAD_ALIGNMENT;
    }
    if (length < HEADER_BYTES) {
        return COLIBRI_MODEL_TOO_SHORT;
    }
    if (!equal(header, magic, sizeof magic)) {
        return COLIBRI_MODEL_UNKNOWN;
    }
    if (read_u32(header + 8) != FORMAT_VERSION) {
        return COLIBRI_MODEL_VERSION;
    }
    if (read_u32(header + HEADER_CHECKED) != crc32(header, HEADER_CHECKED) || read_u32(header + 12) != HEADER_BYTES) {
        return COLIBRI_MODEL_UNKNOWN;
    }
    if (!equal(header + 40, model->abi_hash, 16)) {
        return COLIBRI_MODEL_MISMATCH;
    }
    const uint64_t file_bytes = read_u64(header + 16);
    const uint64_t table_at = read_u64(header + 24);
    const uint64_t count = read_u32(header + 32);
    if (file_bytes > length) {
        return COLIBRI_MODEL_TOO_SHORT;
    }
    /* The offsets in the generated code end at weight_bytes, so a shorter file cannot be this model. */
    if (file_bytes < model->weight_bytes || table_at > file_bytes || count > (file_bytes - table_at) / ENTRY_BYTES) {
        return COLIBRI_MODEL_MISMATCH;
    }
    const uint8_t *table = header + table_at;
    if (read_u32(header + 36) != crc32(table, (size_t)count * ENTRY_BYTES)) {
        return COLIBRI_MODEL_DAMAGED;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t start = read_u64(table + i * ENTRY_BYTES);
        const uint64_t size = read_u64(table + i * ENTRY_BYTES + 8);
        if (start > file_bytes || size > file_bytes - start) {
            return COLIBRI_MODEL_DAMAGED;
        }
    }
    return COLIBRI_OK;
}

colibri_status colibri_verify(const colibri_model *model, const void *bytes, size_t length)
{
    const uint8_t *header = bytes;
    const colibri_status status = colibri_check(model, bytes, length);
    if (status != COLIBRI_OK) {
        return status;
    }
    const uint8_t *table = header + read_u64(header + 24);
    const uint32_t count = read_u32(header + 32);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *entry = table + (size_t)i * ENTRY_BYTES;
        const uint8_t *section = header + read_u64(entry);
        if (read_u32(entry + 16) != crc32(section, (size_t)read_u64(entry + 8))) {
            return COLIBRI_MODEL_DAMAGED;
        }
    }
    return COLIBRI_OK;
}
