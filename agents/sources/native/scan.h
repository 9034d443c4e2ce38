/* Where values end that know nothing of themselves, found sixteen bytes and more at a time. Behind the line there is
 * slack, so what is looked at may lie behind its end, but what is found there counts for nothing. */
#ifndef LINES_SCAN_H
#define LINES_SCAN_H

#include "program.h"

/* Byte by byte, for values that many bytes may end. */
static inline const uint8_t *end_by_table(const Step *step, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        if (step->quoted && *at == '\\')
            at += 2;
        else if (step->ends[*at])
            return at;
        else
            at++;
    }
    return end;
}

/* Outside of quotes control bytes but the tab end a value, too: there is one behind each line. */
static inline const uint8_t *bare_end(const Step *step, const uint8_t *at)
{
    Vector first = load(step->mark[0]), second = load(step->mark[1]), control = every(31);
    for (;; at += VECTOR_BYTES) {
        Vector text = load(at);
        Hits found = hits(either(either(equal(text, first), equal(text, second)), at_most(text, control)));
        for (; found; found = without_first(found)) {
            const uint8_t *hit = at + first_hit(found);
            if (step->ends[*hit])
                return hit;
        }
    }
}

#define QUOTES_IN(text) either(equal(text, quote), equal(text, escape))
#define MARKS_IN(text) either(either(equal(text, first), equal(text, second)), equal(text, escape))
/* A backslash takes the next byte. */
#define SEEK(FOUND)                                                                                                    \
    while (at < end) {                                                                                                 \
        Vector a = load(at), b = load(at + VECTOR_BYTES), c = load(at + 2 * VECTOR_BYTES);                             \
        Vector d = load(at + 3 * VECTOR_BYTES);                                                                        \
        size_t hit = first_of_four(FOUND(a), FOUND(b), FOUND(c), FOUND(d));                                            \
        at += hit;                                                                                                     \
        if (hit == 4 * VECTOR_BYTES)                                                                                   \
            continue;                                                                                                  \
        if (at >= end || *at != '\\')                                                                                  \
            break;                                                                                                     \
        at += 2;                                                                                                       \
    }                                                                                                                  \
    return at < end ? at : end

/* The quote that ends a text; the line's end if none does. */
static inline const uint8_t *quote_end(const uint8_t *at, const uint8_t *end)
{
    Vector quote = every('"'), escape = every('\\');
    SEEK(QUOTES_IN);
}

static inline const uint8_t *marked_end(const Step *step, const uint8_t *at, const uint8_t *end)
{
    Vector first = load(step->mark[0]), second = load(step->mark[1]), escape = every('\\');
    SEEK(MARKS_IN);
}

static inline const uint8_t *run_end(const Step *step, const uint8_t *at, const uint8_t *end, int quoted)
{
    if (step->marks > MARKS)
        return end_by_table(step, at, end);
    if (!quoted)
        return bare_end(step, at);
    return step->ends_at_quote ? quote_end(at, end) : marked_end(step, at, end);
}

#endif
