/* frames.c: see frames.h. Nothing is kept but a running checksum and half a line of text. */
#include "frames.h"

#include <stddef.h>

#include "port.h"

/* ---- checksum ------------------------------------------------------------------------------------------- */

#define CRC_START 0xFFFFFFFFu

/* CRC-32 as in zlib (reflected 0x04C11DB7), by half bytes; the final inversion is the caller's. */
static uint32_t crc_word(uint32_t crc, uint32_t word)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };

    for (int shift = 0; shift < 32; shift += 4) {
        crc = (crc >> 4) ^ table[(crc ^ (word >> shift)) & 0xF];
    }
    return crc;
}

/* ---- requests ------------------------------------------------------------------------------------------- */

/* One word of the stream, whatever the byte order of the core. Bytes are not read ahead: on a serial line the
 * host waits for an answer before it sends more. */
static bool read_word(uint32_t *word)
{
    unsigned char bytes[4];

    if (port_read(bytes, sizeof bytes) != sizeof bytes) {
        return false;
    }
    *word = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    return true;
}

enum request_state request_next(struct requests *requests, uint32_t *op, uint32_t *n_words)
{
    if (!requests->started) {
        uint32_t magic;

        if (!read_word(&magic)) {
            return REQUEST_END;
        }
        if (magic != FRAMES_MAGIC) {
            return REQUEST_DAMAGED;
        }
        requests->started = true;
    }
    if (!read_word(op)) {
        return REQUEST_END;
    }
    if (!read_word(n_words)) {
        return REQUEST_DAMAGED;
    }
    requests->crc = crc_word(crc_word(CRC_START, *op), *n_words);
    requests->left = *n_words;
    return REQUEST_READY;
}

bool request_word(struct requests *requests, uint32_t *word)
{
    if (requests->left == 0 || !read_word(word)) {
        return false;
    }
    requests->left--;
    requests->crc = crc_word(requests->crc, *word);
    return true;
}

bool request_end(struct requests *requests)
{
    uint32_t word;

    while (requests->left > 0) {
        if (!request_word(requests, &word)) {
            return false;
        }
    }
    return read_word(&word) && word == ~requests->crc;
}

/* ---- answers -------------------------------------------------------------------------------------------- */

static void put(struct frames *frames, char character)
{
    if (frames->used == sizeof frames->text) {
        port_write(frames->text, frames->used);
        frames->used = 0;
    }
    frames->text[frames->used++] = character;
}

static void put_hexadecimal(struct frames *frames, uint32_t value)
{
    put(frames, ' ');
    for (int shift = 28; shift >= 0; shift -= 4) {
        put(frames, "0123456789abcdef"[(value >> shift) & 0xF]);
    }
}

static void put_decimal(struct frames *frames, uint32_t value)
{
    char digits[10];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (n > 0) {
        put(frames, digits[--n]);
    }
}

void frame_begin(struct frames *frames, char op, int32_t status, uint32_t n_words)
{
    const uint32_t raw = (uint32_t)status;

    frames->used = 0;
    frames->crc = crc_word(CRC_START, frames->sequence);
    frames->crc = crc_word(frames->crc, (unsigned char)op);
    frames->crc = crc_word(frames->crc, raw);
    frames->crc = crc_word(frames->crc, n_words);

    put(frames, '@');
    put_hexadecimal(frames, frames->sequence);
    put(frames, ' ');
    put(frames, op);
    put(frames, ' ');
    if (status < 0) {
        put(frames, '-');
    }
    put_decimal(frames, status < 0 ? 0u - raw : raw);
    put(frames, ' ');
    put_decimal(frames, n_words);
    frames->sequence++;
}

void frame_word(struct frames *frames, uint32_t word)
{
    frames->crc = crc_word(frames->crc, word);
    put_hexadecimal(frames, word);
}

void frame_end(struct frames *frames)
{
    put_hexadecimal(frames, ~frames->crc);
    put(frames, '\n');
    port_write(frames->text, frames->used);
    frames->used = 0;
}
