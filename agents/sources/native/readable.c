/* Texts near the end of their block, copied to where there are bytes behind them. */
#include <stdlib.h>

#include "lines.h"

const uint8_t *copied(Copied *copy, const uint8_t *text, size_t size)
{
    if (copy->room < size + SLACK) {
        uint8_t *grown = realloc(copy->bytes, 2 * size + SLACK);
        if (grown == NULL)
            return NULL;
        copy->bytes = grown;
        copy->room = 2 * size + SLACK;
    }
    memcpy(copy->bytes, text, size);
    memset(copy->bytes + size, 0, SLACK);
    return copy->bytes;
}
