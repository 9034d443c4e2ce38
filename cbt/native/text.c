/* Strings to words. A view is 16 bytes: the length, and either the text itself (up to 12 bytes) or its first 4 bytes, a
 * buffer's number and an offset in it (Arrow, "variable-size binary view layout"). */
#include "native.h"

#define VIEW_BYTES 16
#define INLINE_BYTES 12

int words_of_views(const uint8_t *views, ptrdiff_t view_count, const Column *buffers, ptrdiff_t buffer_count,
                   const int64_t *rows, ptrdiff_t count, ptrdiff_t width, uint64_t *out)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        int64_t row = rows == NULL ? i : rows[i];
        if (row < 0 || row >= view_count)
            return -2;
        const uint8_t *view = views + VIEW_BYTES * row, *text = view + 4;
        uint32_t part[4];
        memcpy(part, view, sizeof part);
        ptrdiff_t left = part[0];
        if (left > 8 * width)
            return -2;
        if (left > INLINE_BYTES) {
            if ((ptrdiff_t)part[2] >= buffer_count || (ptrdiff_t)part[3] > buffers[part[2]].rows - left)
                return -2;
            text = (const uint8_t *)buffers[part[2]].items + part[3];
        }
        ptrdiff_t full = left / 8;
        for (ptrdiff_t word = 0; word < full; word++)
            memcpy(out + word * count + i, text + 8 * word, 8);
        for (ptrdiff_t word = full; word < width; word++)
            out[word * count + i] = 0;
        if (full < width)
            memcpy(out + full * count + i, text + 8 * full, (size_t)(left % 8));
    }
    return 0;
}
