/* Values of a column that are the same, found by hashing: most columns have few. */
#include <stdlib.h>

#include "hashing.h"
#include "objects.h"

#define TABLE_SIZE (2 * DISTINCT_MAX)

typedef struct {
    uint64_t hash;
    const uint8_t *at;
    size_t size;
    ptrdiff_t code; /* -1: free */
} Entry;

/* Who writes values that collide makes a block slow, but no slower than its rows times the values it may have. */
ptrdiff_t code_values(const Block *block, const Spans *spans, uint32_t *codes, int32_t *firsts, uint8_t *valid,
                      ptrdiff_t *nulls)
{
    const uint8_t *limit = block->bytes + block->size;
    ptrdiff_t distinct = 0;
    Entry *table = malloc(TABLE_SIZE * sizeof *table);
    if (table == NULL)
        return NO_MEMORY;
    for (size_t i = 0; i < TABLE_SIZE; i++)
        table[i].code = -1;
    *nulls = 0;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        fetch_ahead(block, spans, row);
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0) {
            distinct = BAD;
            break;
        }
        put_bit(valid, row, has);
        codes[row] = 0;
        if (!has) {
            ++*nulls;
            continue;
        }
        size_t size = (size_t)(end - at);
        uint64_t hash = hash_of(at, size, limit);
        size_t place = (size_t)(hash >> 20) % TABLE_SIZE;
        for (; table[place].code >= 0; place = (place + 1) % TABLE_SIZE) {
            const Entry *known = &table[place];
            if (known->hash == hash && known->size == size && is_same(known->at, limit, at, limit, size))
                break;
        }
        if (table[place].code < 0) {
            if (distinct == DISTINCT_MAX) {
                free(table);
                return TOO_MANY;
            }
            table[place] = (Entry){hash, at, size, distinct};
            put_place(firsts, distinct++, (int32_t)(at - block->bytes), (int32_t)(end - block->bytes));
        }
        codes[row] = (uint32_t)table[place].code;
    }
    free(table);
    return distinct;
}
