/* Kernels that take log lines apart: plain C over buffers that the caller owns. None of them calls Python or keeps
 * anything; module.c checks what they rely on. What each gives is defined by its twin in Python, byte for byte
 * (elf.agents.sources.layouts), which also says why it is so. */
#ifndef LINES_H
#define LINES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "texts are compared as little-endian words; elsewhere Python does the work"
#endif

/* So many bytes behind the end of a text may be read, whatever they are. */
#define SLACK 64

/* What kernels return that can fail. */
#define DONE 0
#define BAD -2 /* arguments that do not fit together */
#define NO_MEMORY -3

/* readable.c: texts with slack behind them. What lies too near the end of its block is copied. */
typedef struct {
    uint8_t *bytes;
    size_t room;
} Copied;

/* The text, or a copy of it; NULL: no memory. A copy is overwritten by the next one. */
const uint8_t *copied(Copied *copy, const uint8_t *text, size_t size);

static inline const uint8_t *readable(Copied *copy, const uint8_t *text, size_t size, const uint8_t *limit)
{
    return (size_t)(limit - text) >= size + SLACK ? text : copied(copy, text, size);
}

/* classes.c: which bytes names, numbers and the like are made of. */
enum {
    DIGIT = 1,
    HEX = 2,
    LETTER = 4,
    UPPER = 8,
    NAME = 16,   /* of hosts: letters, digits, _ */
    INNER = 32,  /* and . and - */
    TOKEN = 64,  /* RFC 9110's */
    SCHEME = 128,
    IDENT = 256,
    PEER = 512,  /* addresses and ports */
    ITEM = 1024, /* all but control bytes, spaces, commas and quotes */
    WORD = 2048, /* all but control bytes and spaces */
    FORGED = 4096 /* letters, and marks that are in no name, address, list or quote */
};
extern const uint16_t classes[256];

static inline int is(uint16_t class, uint8_t byte)
{
    return (classes[byte] & class) != 0;
}

/* Where bytes of a class end. */
static inline const uint8_t *class_end(uint16_t class, const uint8_t *at, const uint8_t *end)
{
    while (at < end && is(class, *at))
        at++;
    return at;
}

static inline int all_of(uint16_t class, const uint8_t *at, const uint8_t *end)
{
    return class_end(class, at, end) == end;
}

static inline int same(const uint8_t *at, const uint8_t *end, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(end - at) == size && memcmp(at, text, size) == 0;
}

static inline int begins(const uint8_t *at, const uint8_t *end, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(end - at) >= size && memcmp(at, text, size) == 0;
}

/* hosts.c: addresses and names (elf.agents.sources.layouts.hosts). There is slack behind the texts. */
int is_ipv4(const uint8_t *at, const uint8_t *end);
int is_ipv6(const uint8_t *at, const uint8_t *end);
int is_ip(const uint8_t *at, const uint8_t *end);
int is_name(const uint8_t *at, const uint8_t *end);
int is_full_name(const uint8_t *at, const uint8_t *end);
int is_peer(const uint8_t *at, const uint8_t *end);
int is_port(const uint8_t *at, const uint8_t *end);
int is_upstream(const uint8_t *at, const uint8_t *end);
int is_no_host(const uint8_t *at, const uint8_t *end);
int is_hidden(const uint8_t *at, const uint8_t *end);
int is_socket(const uint8_t *at, const uint8_t *end);
/* An address and a port. */
int is_ip_port(const uint8_t *at, const uint8_t *end);
/* An address or a name, and a port. */
int is_authority(const uint8_t *at, const uint8_t *end);

/* numbers.c: texts of numbers, and what they are worth (elf.agents.sources.layouts.typed). */
int is_integer(const uint8_t *at, const uint8_t *end);
int is_number(const uint8_t *at, const uint8_t *end);
int is_duration(const uint8_t *at, const uint8_t *end);

/* Of an `is_integer`; 0: it is beyond 64 bits. */
int in_64_bits(const uint8_t *at, const uint8_t *end, int64_t *out);
/* Of an `is_number`, by all of its digits; 0: it is not whole, or beyond 64 bits. */
int whole_in_64_bits(const uint8_t *at, const uint8_t *end, int64_t *out);
/* Of an `is_number`, if one operation rounds it rightly; 0: none does. */
int read_exactly(const uint8_t *at, const uint8_t *end, double *out);

/* A block of lines. */
typedef struct {
    const uint8_t *bytes;
    ptrdiff_t size;
} Block;

/* Of each row where a text begins and ends in the block; a begin below 0: null. */
typedef struct {
    const int32_t *places;
    ptrdiff_t rows;
} Spans;

/* 1: a text; 0: null; BAD: it lies outside of the block. */
static inline int text_at(const Block *block, const Spans *spans, ptrdiff_t row, const uint8_t **at,
                          const uint8_t **end)
{
    int32_t place[2];
    memcpy(place, spans->places + 2 * row, sizeof place);
    if (place[0] < 0)
        return 0;
    if (place[1] < place[0] || place[1] > block->size)
        return BAD;
    *at = block->bytes + place[0];
    *end = block->bytes + place[1];
    return 1;
}

/* The next row's bit; those behind it become 0. */
static inline void put_bit(uint8_t *bitmap, ptrdiff_t row, int bit)
{
    bitmap[row / 8] = (uint8_t)((row % 8 ? bitmap[row / 8] : 0) | bit << row % 8);
}

static inline void put_place(int32_t *places, ptrdiff_t row, int32_t begin, int32_t end)
{
    int32_t place[2] = {begin, end};
    memcpy(places + 2 * row, place, sizeof place);
}

/* All return how many values their type does not have, or BAD: a text is none of its kind. `out` is 0 where there is no
 * value. */
ptrdiff_t read_integers(const Block *block, const Spans *spans, int64_t *out, uint8_t *valid);
/* Where only Python can round rightly, `out` is NaN, and `*hard` counts it. */
ptrdiff_t read_decimals(const Block *block, const Spans *spans, int is_duration, double *out, uint8_t *valid,
                        ptrdiff_t *hard);
/* What a number of a unit is in seconds. */
double in_seconds(double number, const uint8_t *unit, const uint8_t *end);
/* Where the number of a duration ends and its unit begins. */
const uint8_t *unit_of(const uint8_t *at, const uint8_t *end);

/* requests.c: DONE or BAD or NO_MEMORY. `host` NULL: addresses have none. */
int read_requests(const Block *block, const Spans *spans, int32_t *method, int32_t *uri, int32_t *protocol);
int read_uris(const Block *block, const Spans *spans, int32_t *path, int32_t *query, int32_t *host);

/* gather.c: the bytes of all texts, or BAD; writes where each begins and the last ends. */
ptrdiff_t measure_texts(const Block *block, const Spans *spans, int64_t *offsets, uint8_t *valid, ptrdiff_t *nulls);
/* DONE, or BAD: the texts have changed. */
int copy_texts(const Block *block, const Spans *spans, uint8_t *out, ptrdiff_t size);

#endif
