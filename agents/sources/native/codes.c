/* Values of a column that are the same, found by hashing: most columns have few. */
#include <stdlib.h>

#include "objects.h"

#define TABLE_SIZE (2 * DISTINCT_MAX)

typedef struct {
    uint64_t hash;
    const uint8_t *at;
    size_t size;
    ptrdiff_t code; /* -1: free */
} Entry;

static inline uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Fewer than eight bytes, which may be the last of their block. */
static inline uint64_t rest_at(const uint8_t *at, size_t size, const uint8_t *limit)
{
    uint64_t word = 0;
    if (limit - at >= 8)
        return word_at(at) & (((uint64_t)1 << 8 * size) - 1);
    memcpy(&word, at, size);
    return word;
}

static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Who writes values that collide makes a block slow, but no slower than its rows times the values it may have. */
static inline uint64_t hash_of(const uint8_t *at, size_t size, const uint8_t *limit)
{
    uint64_t hash = size;
    for (; size >= 8; at += 8, size -= 8)
        hash = mixed(hash, word_at(at));
    return mixed(hash, rest_at(at, size, limit));
}

static inline int is_same(const uint8_t *left, const uint8_t *right, size_t size, const uint8_t *limit)
{
    for (; size >= 8; left += 8, right += 8, size -= 8)
        if (word_at(left) != word_at(right))
            return 0;
    return rest_at(left, size, limit) == rest_at(right, size, limit);
}

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
            if (known->hash == hash && known->size == size && is_same(known->at, at, size, limit))
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
