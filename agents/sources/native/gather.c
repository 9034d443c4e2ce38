/* Texts copied one after the other, as Arrow has them. */
#include "lines.h"

#define STRIDE 16

ptrdiff_t measure_texts(const Block *block, const Spans *spans, int64_t *offsets, uint8_t *valid, ptrdiff_t *nulls)
{
    int64_t size = 0;
    *nulls = 0;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at = NULL, *end = NULL;
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0)
            return BAD;
        offsets[row] = size;
        size += end - at;
        *nulls += !has;
        put_bit(valid, row, has);
    }
    offsets[spans->rows] = size;
    return (ptrdiff_t)size;
}

int copy_texts(const Block *block, const Spans *spans, uint8_t *out, ptrdiff_t size)
{
    const uint8_t *limit = block->bytes + block->size;
    uint8_t *out_end = out + size;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        int has = text_at(block, spans, row, &at, &end);
        if (has == 0)
            continue;
        if (has < 0 || end - at > out_end - out)
            return BAD;
        /* Most texts are short: what is copied too much of one, the next one is written over. */
        if (end - at <= STRIDE && limit - at >= STRIDE && out_end - out >= STRIDE)
            memcpy(out, at, STRIDE);
        else
            memcpy(out, at, (size_t)(end - at));
        out += end - at;
    }
    return out == out_end ? DONE : BAD;
}
