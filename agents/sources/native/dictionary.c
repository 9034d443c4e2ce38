/* The numbers of values by a dictionary that outlasts the block: what is done with a value is done once. */
#include "dictionary.h"

#include "hashing.h"
#include "vectors.h"

/* Who looks further for a text, of as many with its hash, had better begin a new dictionary. */
#define PROBES_MAX 64
#define ROWS_AHEAD 12

/* Where a text's slot is, or the free one in its place; BAD, or the number of slots: there are too many like it. */
static ptrdiff_t slot_of(const Dictionary *dictionary, uint64_t hash, const uint8_t *at, size_t size,
                         const uint8_t *limit)
{
    size_t mask = (size_t)dictionary->slot_count - 1, place = (size_t)(hash >> 12) & mask;
    const uint8_t *texts_end = dictionary->texts + dictionary->room;
    for (int probe = 0; probe < PROBES_MAX; probe++, place = (place + 1) & mask) {
        uint64_t slot = dictionary->slots[place];
        if (slot == 0)
            return (ptrdiff_t)place;
        if (slot >> 32 != hash >> 32)
            continue;
        ptrdiff_t code = (ptrdiff_t)(slot & UINT32_MAX) - 1;
        if (code < 0 || code >= dictionary->known)
            return BAD;
        int64_t begin = dictionary->offsets[code], end = dictionary->offsets[code + 1];
        if (begin < 0 || end < begin || end > dictionary->room)
            return BAD;
        if ((size_t)(end - begin) == size && is_same(dictionary->texts + begin, texts_end, at, limit, size))
            return (ptrdiff_t)place;
    }
    return dictionary->slot_count;
}

/* Whether a text could be added, which then is in that slot; BAD: the arrays do not fit together. */
static int add(Dictionary *dictionary, ptrdiff_t place, uint64_t hash, const uint8_t *at, size_t size)
{
    if (dictionary->known >= dictionary->most || dictionary->known >= dictionary->slot_count / 2)
        return 0;
    int64_t begin = dictionary->offsets[dictionary->known];
    if (begin < 0 || begin > dictionary->room)
        return BAD;
    if (size > (size_t)(dictionary->room - begin))
        return 0;
    memcpy(dictionary->texts + begin, at, size);
    dictionary->offsets[++dictionary->known] = begin + (int64_t)size;
    dictionary->slots[place] = hash >> 32 << 32 | (uint64_t)dictionary->known;
    return 1;
}

ptrdiff_t look_up(Dictionary *dictionary, const Block *block, const Spans *spans, ptrdiff_t row, uint32_t *codes,
                  uint8_t *valid, ptrdiff_t *nulls)
{
    const uint8_t *limit = block->bytes + block->size;
    for (; row < spans->rows; row++) {
        const uint8_t *at, *end;
        if (row + ROWS_AHEAD < spans->rows)
            __builtin_prefetch(
                (const void *)((uintptr_t)block->bytes + (uintptr_t)spans->places[2 * (row + ROWS_AHEAD)]));
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0)
            return BAD;
        codes[row] = 0;
        if (has) {
            size_t size = (size_t)(end - at);
            uint64_t hash = hash_of(at, size, limit);
            ptrdiff_t place = slot_of(dictionary, hash, at, size, limit);
            if (place < 0)
                return place;
            if (place == dictionary->slot_count)
                return row;
            if (dictionary->slots[place] == 0) {
                int added = add(dictionary, place, hash, at, size);
                if (added <= 0)
                    return added < 0 ? added : row;
            }
            codes[row] = (uint32_t)(dictionary->slots[place] & UINT32_MAX) - 1;
        }
        put_bit(valid, row, has);
        *nulls += !has;
    }
    return row;
}

ptrdiff_t fill_slots(Dictionary *dictionary)
{
    const uint8_t *limit = dictionary->texts + dictionary->room;
    ptrdiff_t known = dictionary->known;
    if (known > dictionary->slot_count / 2)
        return BAD;
    for (ptrdiff_t code = 0; code < known; code++) {
        int64_t begin = dictionary->offsets[code], end = dictionary->offsets[code + 1];
        if (begin < 0 || end < begin || end > dictionary->room)
            return BAD;
        const uint8_t *at = dictionary->texts + begin;
        uint64_t hash = hash_of(at, (size_t)(end - begin), limit);
        ptrdiff_t place = slot_of(dictionary, hash, at, (size_t)(end - begin), limit);
        if (place < 0)
            return place;
        if (place == dictionary->slot_count)
            return code;
        dictionary->slots[place] = hash >> 32 << 32 | (uint64_t)(code + 1);
    }
    return known;
}
