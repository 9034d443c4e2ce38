/* Addresses and names at the beginning of a text behind which there is slack, read sixteen bytes at a time. */
#ifndef LINES_HOSTS_H
#define LINES_HOSTS_H

#include "lines.h"
#include "vectors.h"

#define IPV4_BYTES_MIN 7
#define IPV4_BYTES_MAX 15

static inline Hits digits_in(Vector text)
{
    return hits(no_digit(text)) ^ EVERY_HIT;
}

/* Whether so many digits are a number up to 255 without leading zeros. Compared as text, which is shorter. */
static inline int is_octet(const uint8_t *at, size_t digits)
{
    static const uint32_t least[4] = {UINT32_MAX, '0', '1' << 8 | '0', '1' << 16 | '0' << 8 | '0'};
    uint32_t word;
    memcpy(&word, at, sizeof word);
    word = __builtin_bswap32(word << (32 - 8 * digits));
    return word >= least[digits] && word <= ('2' << 16 | '5' << 8 | '5');
}

/* Whether so many digits and points are an IPv4 address. */
static inline int are_octets(const uint8_t *at, size_t size, Hits points)
{
    if (size < IPV4_BYTES_MIN || size > IPV4_BYTES_MAX)
        return 0;
    points &= hits_before(size);
    Hits after_first = without_first(points), after_second = points ? without_first(after_first) : 0;
    if (!after_second || without_first(after_second))
        return 0;
    size_t first = first_hit(points), second = first_hit(after_first), third = first_hit(after_second);
    size_t sizes[4] = {first, second - first - 1, third - second - 1, size - third - 1};
    if (sizes[0] - 1 > 2 || sizes[1] - 1 > 2 || sizes[2] - 1 > 2 || sizes[3] - 1 > 2)
        return 0;
    return is_octet(at, sizes[0]) & is_octet(at + first + 1, sizes[1]) & is_octet(at + second + 1, sizes[2]) &
           is_octet(at + third + 1, sizes[3]);
}

/* Where the digits and points end that a text begins with; NULL if they are no address. */
static inline const uint8_t *ipv4_end(const uint8_t *at)
{
    Vector text = load(at);
    Hits points = hits(equal(text, every('.'))), others = hits(no_digit(text)) ^ points;
    size_t size = others ? first_hit(others) : 0;
    return are_octets(at, size, points) ? at + size : NULL;
}

/* Where the bytes of names end that a text begins with; NULL if they are none. */
static inline const uint8_t *name_end(const uint8_t *at)
{
    const uint8_t *end = at;
    Hits letters = 0;
    for (;; end += VECTOR_BYTES) {
        Vector text = load(end), lower = either(text, every(0x20));
        Vector letter = at_most(minus(lower, every('a')), every(25));
        Vector mark = either(at_most(minus(text, every('-')), every(1)), equal(text, every('_')));
        Hits others = hits(no_digit(text)) & ~hits(either(letter, mark));
        if (!others) {
            letters |= hits(letter);
            continue;
        }
        size_t size = first_hit(others);
        letters |= hits(letter) & hits_before(size);
        end += size;
        int is_name = letters && end > at && is(NAME, *at) && (is(NAME, end[-1]) || end[-1] == '.');
        return is_name ? end : NULL;
    }
}

/* Whether the bytes of addresses go on with a port at most, so that no colon is behind this place. */
static inline int is_before_port(const uint8_t *at)
{
    if (*at == ':')
        for (at++; is(DIGIT, *at); at++)
            ;
    return !is(PEER, *at);
}

#endif
