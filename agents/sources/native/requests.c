/* Requests and addresses taken apart; elf.agents.sources.layouts.typed defines it. */
#include <stdlib.h>

#include "lines.h"
#include "vectors.h"

/* Where a part of a text begins and ends in its block; -1 and -1: it has none. */
typedef struct {
    int32_t begin, end;
} Place;

static const Place missing = {-1, -1};

static inline void put(int32_t *places, ptrdiff_t row, Place place)
{
    put_place(places, row, place.begin, place.end);
}

static inline Place place_of(const Block *block, const uint8_t *begin, const uint8_t *end)
{
    return (Place){(int32_t)(begin - block->bytes), (int32_t)(end - block->bytes)};
}

#define HTTP UINT64_C(0x2E002F50545448) /* of eight bytes: HTTP, a slash, and a point behind what is a digit */
#define HTTP_MASK UINT64_C(0x00FF00FFFFFFFFFF)

/* The space before a protocol at the end: letters, a slash, and a digit, or two with a point between. */
static const uint8_t *before_protocol(const uint8_t *at, const uint8_t *end)
{
    uint64_t word;
    if (end - at > 9) {
        memcpy(&word, end - 8, sizeof word);
        if ((word & HTTP_MASK) == HTTP && end[-9] == ' ' && is(DIGIT, end[-3]) && is(DIGIT, end[-1]))
            return end - 9;
    }
    const uint8_t *slash = NULL;
    if (end - at >= 2 && is(DIGIT, end[-1]))
        slash = end[-2] != '.' ? end - 2 : end - at >= 4 && is(DIGIT, end[-3]) ? end - 4 : NULL;
    if (slash == NULL || *slash != '/')
        return NULL;
    const uint8_t *name = slash;
    while (name > at && is(UPPER, name[-1]))
        name--;
    return name < slash && name > at && name[-1] == ' ' ? name - 1 : NULL;
}

int read_requests(const Block *block, const Spans *spans, int32_t *method, int32_t *uri, int32_t *protocol)
{
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0)
            return BAD;
        Place parts[3] = {missing, missing, missing};
        if (has) {
            const uint8_t *first = class_end(TOKEN, at, end), *last = before_protocol(at, end);
            int is_missing = first == at || (first == at + 1 && *at == '-');
            if (!is_missing && last != NULL && last > first + 1 && *first == ' ') {
                parts[0] = place_of(block, at, first);
                parts[1] = place_of(block, first + 1, last);
                parts[2] = place_of(block, last + 1, end);
            }
        }
        put(method, row, parts[0]);
        put(uri, row, parts[1]);
        put(protocol, row, parts[2]);
    }
    return DONE;
}

/* Where the host of an absolute address begins; NULL: it is none. */
static const uint8_t *host_of(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *colon = at < end && is(LETTER, *at) ? class_end(SCHEME, at, end) : at;
    return colon > at && begins(colon, end, "://") ? colon + 3 : NULL;
}

/* A host and a port alone, as of CONNECT; NO_MEMORY if that cannot be told. */
static int is_authority_in(const Block *block, Copied *copy, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *text = readable(copy, at, (size_t)(end - at), block->bytes + block->size);
    return text == NULL ? NO_MEMORY : is_authority(text, text + (end - at));
}

/* The first question mark; the end if there is none. */
static inline const uint8_t *find_mark(const uint8_t *at, const uint8_t *end, const uint8_t *limit)
{
    if (limit - end >= VECTOR_BYTES)
        return find_byte('?', at, end);
    const uint8_t *mark = memchr(at, '?', (size_t)(end - at));
    return mark == NULL ? end : mark;
}

/* Take an address apart; DONE or NO_MEMORY. */
static int read_uri(const Block *block, Copied *copy, const uint8_t *at, const uint8_t *end, int absolute,
                    Place *path, Place *query, Place *host)
{
    *path = *query = *host = missing;
    if (absolute && (at == end || *at != '/')) {
        const uint8_t *name = host_of(at, end);
        if (name != NULL) {
            at = name;
            while (at < end && *at != '/' && *at != '?')
                at++;
            *host = place_of(block, name, at);
            if (at == end) {
                /* The last slash before the host stands for the path. */
                *path = place_of(block, name - 1, name);
                return DONE;
            }
        } else {
            int is_alone = is_authority_in(block, copy, at, end);
            if (is_alone < 0)
                return is_alone;
            if (is_alone) {
                *host = place_of(block, at, end);
                return DONE;
            }
        }
    }
    const uint8_t *mark = find_mark(at, end, block->bytes + block->size);
    *path = place_of(block, at, mark);
    if (mark + 1 < end)
        *query = place_of(block, mark + 1, end);
    return DONE;
}

int read_uris(const Block *block, const Spans *spans, int32_t *path, int32_t *query, int32_t *host)
{
    Copied copy = {0};
    int done = DONE;
    for (ptrdiff_t row = 0; row < spans->rows && done == DONE; row++) {
        const uint8_t *at, *end;
        Place places[3] = {missing, missing, missing};
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0)
            done = BAD;
        else if (has)
            done = read_uri(block, &copy, at, end, host != NULL, &places[0], &places[1], &places[2]);
        put(path, row, places[0]);
        put(query, row, places[1]);
        if (host != NULL)
            put(host, row, places[2]);
    }
    free(copy.bytes);
    return done;
}
