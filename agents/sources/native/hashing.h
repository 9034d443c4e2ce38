/* Texts hashed and compared a word at a time. */
#ifndef LINES_HASHING_H
#define LINES_HASHING_H

#include "lines.h"

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

/* Who knows how texts are hashed can write many of one hash: whoever looks for them has a bound for that. */
static inline uint64_t hash_of(const uint8_t *at, size_t size, const uint8_t *limit)
{
    uint64_t hash = size;
    for (; size >= 8; at += 8, size -= 8)
        hash = mixed(hash, word_at(at));
    return mixed(hash, rest_at(at, size, limit));
}

static inline int is_same(const uint8_t *left, const uint8_t *left_limit, const uint8_t *right,
                          const uint8_t *right_limit, size_t size)
{
    for (; size >= 8; left += 8, right += 8, size -= 8)
        if (word_at(left) != word_at(right))
            return 0;
    return rest_at(left, size, left_limit) == rest_at(right, size, right_limit);
}

#endif
