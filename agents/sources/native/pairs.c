/* Lines of names and values taken apart: LTSV, `name:value` between tabs, and logfmt, `name=value` between spaces;
 * elf.agents.sources.pairs.line defines it. */
#include <stdlib.h>

#include "pairs.h"
#include "vectors.h"

#define PAIRS_MIN 2

/* `origin`: where the line's block begins; of a copy of the line, where it would. */
static void put_pair(const Pairs *out, ptrdiff_t row, uintptr_t origin, const uint8_t *name, size_t size,
                     const uint8_t *begin, const uint8_t *end)
{
    for (ptrdiff_t i = 0; i < out->count; i++) {
        if (out->names[i].size != size || memcmp(out->names[i].at, name, size) != 0)
            continue;
        if (begin == NULL)
            put_place(out->spans[i], row, -1, -1);
        else
            put_place(out->spans[i], row, (int32_t)((uintptr_t)begin - origin), (int32_t)((uintptr_t)end - origin));
    }
}

/* NULL: the line fits; else where it stops to. */
static const uint8_t *take_ltsv(const uint8_t *at, const uint8_t *end, uintptr_t origin, const Pairs *out,
                                ptrdiff_t row)
{
    for (int pairs = 1;; pairs++) {
        const uint8_t *colon = class_end(INNER, at, end);
        if (colon == at || colon == end || *colon != ':')
            return colon;
        const uint8_t *begin = colon + 1, *tab = memchr(begin, '\t', (size_t)(end - begin));
        const uint8_t *behind = tab == NULL ? end : tab;
        int is_null = behind - begin == 1 && *begin == '-';
        put_pair(out, row, origin, at, (size_t)(colon - at), is_null ? NULL : begin, behind);
        if (tab == NULL)
            return pairs < PAIRS_MIN ? end : NULL;
        at = tab + 1;
    }
}

static int is_of_name(uint8_t byte)
{
    return is(INNER, byte) || byte == '@' || byte == '/' || byte >= 0x80;
}

static int hex_value(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 4 || !all_of(HEX, at, at + 4))
        return -1;
    int value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 4 | (is(DIGIT, at[i]) ? at[i] - '0' : (at[i] & ~0x20) - 'A' + 10);
    return value;
}

/* Where an escape of JSON ends that begins with a backslash here; NULL: it is none. */
static const uint8_t *escape_end(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u')
        return memchr("\"\\/bfnrt", at[1], 8) == NULL ? NULL : at + 2;
    int value = hex_value(at + 2, end);
    if (value < 0 || (value >= 0xDC00 && value < 0xE000))
        return NULL;
    if (value < 0xD800 || value >= 0xE000)
        return at + 6;
    /* Half a character, which the other half has to follow. */
    if (end - at < 12 || at[6] != '\\' || at[7] != 'u')
        return NULL;
    value = hex_value(at + 8, end);
    return value >= 0xDC00 && value < 0xE000 ? at + 12 : NULL;
}

/* Where the next quote, backslash or control byte is. */
static const uint8_t *plain_end(const uint8_t *at, const uint8_t *end)
{
    Vector quote = every('"'), escape = every('\\'), control = every(31);
    for (; at < end; at += VECTOR_BYTES) {
        Vector text = load(at);
        Hits found = hits(either(either(equal(text, quote), equal(text, escape)), at_most(text, control)));
        if (found) {
            at += first_hit(found);
            break;
        }
    }
    return at < end ? at : end;
}

/* Where a value without quotes ends. */
static const uint8_t *bare_value_end(const uint8_t *at, const uint8_t *end)
{
    Vector quote = every('"'), equals = every('='), space = every(' ');
    for (; at < end; at += VECTOR_BYTES) {
        Vector text = load(at);
        Hits found = hits(either(either(equal(text, quote), equal(text, equals)), equal(text, space)));
        if (found) {
            at += first_hit(found);
            break;
        }
    }
    return at < end ? at : end;
}

/* The quote that ends a text; NULL: there is none, or the text is not JSON's. */
static const uint8_t *text_end(const uint8_t *at, const uint8_t *end)
{
    while ((at = plain_end(at, end)) < end && *at == '\\') {
        at = escape_end(at, end);
        if (at == NULL)
            return NULL;
    }
    return at < end && *at == '"' ? at : NULL;
}

static const uint8_t *take_logfmt(const uint8_t *at, const uint8_t *end, uintptr_t origin, const Pairs *out,
                                  ptrdiff_t row)
{
    int values = 0;
    while (at < end) {
        const uint8_t *name = at, *begin = NULL, *behind = at;
        if (!is(LETTER, *at) && *at != '_' && *at < 0x80)
            return name;
        while (at < end && is_of_name(*at))
            at++;
        size_t size = (size_t)(at - name);
        if (at < end && *at == '=') {
            begin = ++at;
            if (at < end && *at == '"') {
                begin++;
                behind = text_end(begin, end);
                if (behind == NULL)
                    return name;
                at = behind + 1;
            } else {
                behind = at = bare_value_end(at, end);
            }
            values++;
        }
        if (at < end && *at != ' ')
            return name;
        put_pair(out, row, origin, name, size, begin, behind);
        while (at < end && *at == ' ')
            at++;
    }
    return values < PAIRS_MIN ? end : NULL;
}

static int take_lines(int style, const Block *block, const int64_t *ends, ptrdiff_t lines, const Pairs *out,
                      ptrdiff_t *fitting, ptrdiff_t *unfit, Copied *copy)
{
    const uint8_t *limit = block->bytes + block->size;
    int64_t begin = 0;
    for (ptrdiff_t i = 0; i < lines; i++) {
        /* Read once: the caller's arrays may lie where another one does. */
        int64_t end = ends[i];
        if (end < begin || end >= block->size || block->bytes[end] != '\n')
            return BAD;
        for (ptrdiff_t name = 0; name < out->count; name++)
            put_place(out->spans[name], *fitting, -1, -1);
        const uint8_t *at = readable(copy, block->bytes + begin, (size_t)(end - begin), limit);
        if (at == NULL)
            return NO_MEMORY;
        const uint8_t *stop = at + (end - begin);
        uintptr_t origin = (uintptr_t)at - (uintptr_t)begin;
        const uint8_t *stopped = style == LTSV ? take_ltsv(at, stop, origin, out, *fitting)
                                               : take_logfmt(at, stop, origin, out, *fitting);
        if (stopped == NULL) {
            (*fitting)++;
        } else {
            put_place(out->misfits, *unfit, (int32_t)i, (int32_t)(stopped - at));
            (*unfit)++;
        }
        begin = end + 1;
    }
    return DONE;
}

int take_pairs(int style, const Block *block, const int64_t *ends, ptrdiff_t lines, const Pairs *out,
               ptrdiff_t *fitting, ptrdiff_t *unfit)
{
    Copied copy = {0};
    *fitting = *unfit = 0;
    int done = take_lines(style, block, ends, lines, out, fitting, unfit, &copy);
    free(copy.bytes);
    return done;
}
