/* What a chunk is before lines are made of it: where they end, what in it is unusual, whether it is UTF-8.
 * elf.agents.sources.lines defines it. */
#include "sweep.h"

#include "vectors.h"

#define FOUR (4 * VECTOR_BYTES)
/* The first byte of a byte order mark. */
#define MARK_BYTE 0xEF

/* Behind a character of more than one byte; NULL: it is none. */
static const uint8_t *character_end(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = *at, least = 0x80, most = 0xBF;
    ptrdiff_t more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    if (first < 0xC2 || first > 0xF4 || end - at <= more)
        return NULL;
    if (first == 0xE0)
        least = 0xA0;
    else if (first == 0xED)
        most = 0x9F;
    else if (first == 0xF0)
        least = 0x90;
    else if (first == 0xF4)
        most = 0x8F;
    if (at[1] < least || at[1] > most)
        return NULL;
    for (ptrdiff_t i = 2; i <= more; i++)
        if ((at[i] & 0xC0) != 0x80)
            return NULL;
    return at + more + 1;
}

/* What has been found. */
typedef struct {
    const uint8_t *chunk;
    ptrdiff_t count, room, longest, begin;
    int64_t *ends;
    int is_plain, is_utf8;
    const uint8_t *checked; /* up to where it is UTF-8 */
} Sweep;

static inline void put_end(Sweep *sweep, ptrdiff_t at)
{
    if (sweep->count < sweep->room)
        sweep->ends[sweep->count] = at;
    sweep->count++;
    if (at - sweep->begin > sweep->longest || sweep->chunk[sweep->begin] == MARK_BYTE)
        sweep->is_plain = 0;
    sweep->begin = at + 1;
}

/* Look at the sixteen bytes from `at` on. */
static inline void sweep_vector(Sweep *sweep, ptrdiff_t at)
{
    Vector text = load(sweep->chunk + at);
    Hits found = hits(at_most(text, every(LAST_ODD)));
    Hits ends = hits(equal(text, every('\n')));
    if (found != ends)
        sweep->is_plain = 0;
    for (; ends; ends = without_first(ends))
        put_end(sweep, at + (ptrdiff_t)first_hit(ends));
}

/* Look at the characters that begin in some bytes, behind what has been looked at. */
static void check_characters(Sweep *sweep, const uint8_t *at, const uint8_t *until, const uint8_t *end)
{
    at = at < sweep->checked ? sweep->checked : at;
    while (at < until && sweep->is_utf8) {
        if (until - at >= VECTOR_BYTES && hits(at_most(load(at), every(0x7F))) == EVERY_HIT) {
            at += VECTOR_BYTES;
            continue;
        }
        if (*at < 0x80) {
            at++;
            continue;
        }
        const uint8_t *next = character_end(at, end);
        sweep->is_utf8 = next != NULL;
        at = next;
    }
    sweep->checked = at;
}

ptrdiff_t find_lines(const uint8_t *chunk, ptrdiff_t size, ptrdiff_t longest, int64_t *ends, ptrdiff_t room,
                     int *is_plain, int *is_utf8)
{
    Sweep sweep = {.chunk = chunk, .room = room, .longest = longest, .ends = ends, .is_plain = 1, .is_utf8 = 1};
    Vector last = every(LAST_ODD), ascii = every(0x7F);
    const uint8_t *end = chunk + size;
    ptrdiff_t at = 0;
    sweep.checked = chunk;
    for (; at + FOUR <= size; at += FOUR) {
        Vector a = load(chunk + at), b = load(chunk + at + VECTOR_BYTES);
        Vector c = load(chunk + at + 2 * VECTOR_BYTES), d = load(chunk + at + 3 * VECTOR_BYTES);
        if (hits(at_most(either(either(a, b), either(c, d)), ascii)) != EVERY_HIT)
            check_characters(&sweep, chunk + at, chunk + at + FOUR, end);
        if (!hits(either(either(at_most(a, last), at_most(b, last)), either(at_most(c, last), at_most(d, last)))))
            continue;
        for (int i = 0; i < 4; i++)
            sweep_vector(&sweep, at + i * VECTOR_BYTES);
    }
    for (; at < size; at++) {
        if (chunk[at] == '\n')
            put_end(&sweep, at);
        else if (chunk[at] <= LAST_ODD)
            sweep.is_plain = 0;
    }
    check_characters(&sweep, chunk + size - size % FOUR, end, end);
    *is_plain = sweep.is_plain;
    *is_utf8 = sweep.is_utf8;
    return sweep.count;
}

int is_valid_utf8(const uint8_t *at, ptrdiff_t size)
{
    const uint8_t *end = at + size;
    Vector ascii = every(0x7F);
    while (at < end) {
        for (; end - at >= FOUR; at += FOUR) {
            Vector both = either(load(at), load(at + VECTOR_BYTES));
            Vector others = either(load(at + 2 * VECTOR_BYTES), load(at + 3 * VECTOR_BYTES));
            if (hits(at_most(either(both, others), ascii)) != EVERY_HIT)
                break;
        }
        if (end - at >= VECTOR_BYTES) {
            Hits plain = hits(at_most(load(at), ascii));
            if (plain == EVERY_HIT) {
                at += VECTOR_BYTES;
                continue;
            }
            at += first_hit(~plain & EVERY_HIT);
        } else if (at < end && *at < 0x80) {
            at++;
            continue;
        }
        while (at < end && *at >= 0x80) {
            at = character_end(at, end);
            if (at == NULL)
                return 0;
        }
    }
    return 1;
}
