/* frames.h: requests in, answers out, both checksummed: how a test program on a board talks to the host.
 *
 * Requests come as little-endian 32-bit words from port_read(): one magic word, then records of
 *     op, number of payload words, payload, CRC-32 of all these.
 *
 * An answer is one line of text on the console, between whatever else is printed there:
 *     @ SEQUENCE OP STATUS COUNT WORD ... CRC
 * SEQUENCE (from 0), words and CRC are 8 hexadecimal digits, OP is a letter, STATUS and COUNT are decimal. The
 * CRC-32 is of the bytes of sequence, op, status, count and words, each as a little-endian 32-bit word.
 */
#ifndef COLIBRI_FRAMES_H
#define COLIBRI_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#define FRAMES_MAGIC 0x434C4252u

/* ---- requests ------------------------------------------------------------------------------------------- */

enum request_state {
    REQUEST_DAMAGED = -1, /* not a request stream, or cut off */
    REQUEST_END = 0,
    REQUEST_READY = 1,
};

struct requests {
    uint32_t crc;  /* of the record so far */
    uint32_t left; /* payload words not read yet */
    bool started;  /* the magic word was read */
};

/* An all-zero struct is the start of the stream. */

/* Go to the next record: its op and the number of its payload words. The one before must have been ended. */
enum request_state request_next(struct requests *requests, uint32_t *op, uint32_t *n_words);

/* Read one payload word; false when there is none left or the stream is cut off. */
bool request_word(struct requests *requests, uint32_t *word);

/* Skip what was not read and check the record; false when it was damaged on its way. */
bool request_end(struct requests *requests);

/* ---- answers -------------------------------------------------------------------------------------------- */

struct frames {
    uint32_t sequence; /* of the next frame */
    uint32_t crc;      /* of the frame so far */
    uint32_t used;     /* bytes of text */
    char text[60];
};

/* An all-zero struct is the start of the answers. */

/* Begin a frame that will carry exactly n_words words. */
void frame_begin(struct frames *frames, char op, int32_t status, uint32_t n_words);
void frame_word(struct frames *frames, uint32_t word);
void frame_end(struct frames *frames);

#endif
