/* The bytes of a program, taken one after the other. */
#ifndef LINES_INPUT_H
#define LINES_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* What has not been read yet. */
typedef struct {
    const uint8_t *at, *end;
} Input;

/* The next bytes; NULL: there are not so many. */
static inline const uint8_t *take_bytes(Input *input, size_t size)
{
    const uint8_t *at = input->at;
    if ((size_t)(input->end - at) < size)
        return NULL;
    input->at += size;
    return at;
}

static inline uint16_t u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

#endif
