/* Rows' places in the tree's order, and rows of one key brought together; cbt/hashing.py and cbt/rows.py say why. */
#include "native.h"

#define CHUNK 512
#define DIGIT_BITS 10 /* four digits make an order */
#define DIGITS 4
#define DIGIT_VALUES (1 << DIGIT_BITS)
#define FEW_ROWS 48

void hash_words(const Column *columns, ptrdiff_t width, ptrdiff_t rows, uint64_t *out)
{
    for (ptrdiff_t at = 0; at < rows; at += CHUNK) {
        ptrdiff_t end = rows - at < CHUNK ? rows : at + CHUNK;
        for (ptrdiff_t i = at; i < end; i++)
            out[i] = (uint64_t)width;
        for (ptrdiff_t c = 0; c < width; c++) {
            for (ptrdiff_t i = at; i < end; i++) {
                uint64_t hashed = (out[i] ^ value_at(&columns[c], i)) * 0x9E3779B97F4A7C15;
                out[i] = hashed ^ hashed >> 29;
            }
        }
        for (ptrdiff_t i = at; i < end; i++)
            out[i] = mix64(out[i]);
    }
}

/* By the order alone, stably: numbers ascend before, so they do within an order afterwards. */
void sort_packed(uint64_t *packed, uint64_t *scratch, ptrdiff_t rows)
{
    if (rows <= FEW_ROWS) {
        for (ptrdiff_t i = 1; i < rows; i++) {
            uint64_t value = packed[i];
            ptrdiff_t at = i;
            for (; at > 0 && packed[at - 1] >> NUMBER_BITS > value >> NUMBER_BITS; at--)
                packed[at] = packed[at - 1];
            packed[at] = value;
        }
        return;
    }
    uint32_t counts[DIGITS][DIGIT_VALUES] = {{0}};
    for (ptrdiff_t i = 0; i < rows; i++)
        for (int d = 0; d < DIGITS; d++)
            counts[d][packed[i] >> (NUMBER_BITS + d * DIGIT_BITS) & (DIGIT_VALUES - 1)]++;
    uint64_t *from = packed, *to = scratch;
    for (int d = 0; d < DIGITS; d++) {
        int shift = NUMBER_BITS + d * DIGIT_BITS;
        uint32_t place = 0;
        for (int v = 0; v < DIGIT_VALUES; v++) {
            uint32_t count = counts[d][v];
            counts[d][v] = place;
            place += count;
        }
        for (ptrdiff_t i = 0; i < rows; i++)
            to[counts[d][from[i] >> shift & (DIGIT_VALUES - 1)]++] = from[i];
        uint64_t *other = from;
        from = to;
        to = other;
    }
    /* After an even number of passes all is where it was. */
}

static int same_key(const Column *columns, ptrdiff_t width, ptrdiff_t left, ptrdiff_t right)
{
    for (ptrdiff_t c = 0; c < width; c++)
        if (columns[c].items != NULL && value_at(&columns[c], left) != value_at(&columns[c], right))
            return 0;
    return 1;
}

ptrdiff_t first_rows(const Column *columns, ptrdiff_t width, const uint64_t *packed, ptrdiff_t rows, int64_t *starts)
{
    ptrdiff_t count = 0, limit = PTRDIFF_MAX, before = 0;
    uint64_t order = 0;
    for (ptrdiff_t c = 0; c < width; c++)
        if (columns[c].items != NULL && columns[c].rows < limit)
            limit = columns[c].rows;
    /* What has been checked is kept: `starts` may lie where `packed` does. */
    for (ptrdiff_t i = 0; i < rows; i++) {
        uint64_t place = packed[i];
        ptrdiff_t number = (ptrdiff_t)(place & NUMBER_MASK);
        if (number >= limit)
            return -2;
        if (i == 0 || place >> NUMBER_BITS != order)
            starts[count++] = i;
        else if (!same_key(columns, width, number, before))
            return -1;
        order = place >> NUMBER_BITS;
        before = number;
    }
    return count;
}

/* The first row from `low` on whose order is not below the wanted one. */
static ptrdiff_t first_from(const uint64_t *order, ptrdiff_t low, ptrdiff_t rows, uint64_t wanted)
{
    ptrdiff_t high = rows;
    while (low < high) {
        ptrdiff_t middle = low + (high - low) / 2;
        if (order[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int locate(const Column *many, const Column *few, ptrdiff_t width, const uint64_t *order, ptrdiff_t rows,
           const uint64_t *wanted, ptrdiff_t count, int64_t *places)
{
    ptrdiff_t at = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        at = first_from(order, at, rows, wanted[i]);
        places[i] = at;
        if (at == rows || order[at] != wanted[i]) {
            places[i] = -1 - at;
            continue;
        }
        if (at + 1 < rows && order[at + 1] == wanted[i])
            return -1;
        for (ptrdiff_t c = 0; c < width; c++)
            if (value_at(&many[c], at) != value_at(&few[c], i))
                return -1;
    }
    return 0;
}

#define TAKE(type)                                                                                                     \
    for (ptrdiff_t i = 0; i < count; i++) {                                                                            \
        ptrdiff_t at = starts == NULL ? i : (ptrdiff_t)starts[i];                                                      \
        if (at < 0 || at >= rows)                                                                                      \
            return -2;                                                                                                 \
        ptrdiff_t number = (ptrdiff_t)(packed[at] & NUMBER_MASK);                                                      \
        if (number >= column->rows)                                                                                    \
            return -2;                                                                                                 \
        out[i] = ((const type *)column->items)[number];                                                                \
    }                                                                                                                  \
    return 0

int take_rows(const Column *column, const uint64_t *packed, ptrdiff_t rows, const int64_t *starts, ptrdiff_t count,
              uint64_t *out)
{
    switch (column->items == NULL ? 0 : column->item_bytes) {
    case 8: TAKE(uint64_t);
    case 4: TAKE(uint32_t);
    case 2: TAKE(uint16_t);
    case 1: TAKE(uint8_t);
    default:
        for (ptrdiff_t i = 0; i < count; i++)
            out[i] = column->same;
        return 0;
    }
}

int sum_runs(const int64_t *values, ptrdiff_t rows, const int64_t *starts, ptrdiff_t count, int64_t *out)
{
    for (ptrdiff_t run = 0; run < count; run++) {
        int64_t start = starts[run], end = run + 1 < count ? starts[run + 1] : rows, sum = 0;
        if (start < 0 || end <= start || end > rows)
            return -2;
        for (int64_t i = start; i < end; i++)
            if (__builtin_add_overflow(sum, values[i], &sum))
                return -1;
        out[run] = sum;
    }
    return 0;
}
