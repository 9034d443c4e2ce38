/* Values of JSON in columns of a type; elf.agents.sources.objects.values defines it. */
#include <stdlib.h>

#include "objects.h"

/* Digits of a number in quotes that is an integer. */
#define QUOTED_DIGITS_MAX 19
/* So many digits fit in 64 bits, whatever they are. */
#define FEW_DIGITS 18
#define STRIDE 16

/* A value without its quotes, if it has some, and without escapes. */
typedef struct {
    const uint8_t *at, *end;
    int is_text;
} Content;

/* 1: a value; 0: null; BAD or NO_MEMORY. */
static int content_at(const Block *block, const Spans *spans, ptrdiff_t row, Copied *copy, Content *content)
{
    fetch_ahead(block, spans, row);
    int has = text_at(block, spans, row, &content->at, &content->end);
    if (has <= 0)
        return has;
    if (content->at == content->end)
        return BAD;
    content->is_text = *content->at == '"';
    if (!content->is_text)
        return 1;
    if (content->end - content->at < 2)
        return BAD;
    content->at++;
    content->end--;
    size_t size = (size_t)(content->end - content->at);
    if (memchr(content->at, '\\', size) == NULL)
        return 1;
    const uint8_t *written = content->at;
    content->at = copied(copy, written, size);
    if (content->at == NULL)
        return NO_MEMORY;
    ptrdiff_t without = unescaped(written, content->end, copy->bytes);
    content->end = content->at + without;
    return without < 0 ? BAD : 1;
}

static int add_hard(Hard *hard, ptrdiff_t row)
{
    if (hard->count == hard->room) {
        ptrdiff_t room = 2 * hard->room + 64;
        ptrdiff_t *rows = realloc(hard->rows, (size_t)room * sizeof *rows);
        if (rows == NULL)
            return NO_MEMORY;
        hard->rows = rows;
        hard->room = room;
    }
    hard->rows[hard->count++] = row;
    return DONE;
}

/* What a value is as an integer; 0: it does not fit. */
static int integer_of(const Content *content, int bits, int64_t *out)
{
    const uint8_t *at = content->at, *end = content->end;
    ptrdiff_t size = end - at;
    int is_negative = size > 1 && *at == '-';
    if (content->is_text && (!is_integer(at, end) || size - !is(DIGIT, *at) > QUOTED_DIGITS_MAX))
        return 0;
    if (all_of(DIGIT, at + is_negative, end) && size - is_negative <= FEW_DIGITS && size > 0) {
        int64_t digits = 0;
        for (at += is_negative; at < end; at++)
            digits = 10 * digits + (*at - '0');
        *out = is_negative ? -digits : digits;
    } else if (is_integer(at, end)) {
        if (!in_64_bits(at, end, out))
            return 0;
    } else if (!is_number(at, end) || !whole_in_64_bits(at, end, out)) {
        return 0;
    }
    return bits == 64 || (*out >= INT32_MIN && *out <= INT32_MAX);
}

ptrdiff_t object_integers(const Block *block, const Spans *spans, int bits, int64_t *out, uint8_t *valid)
{
    ptrdiff_t unfit = 0;
    Copied copy = {0};
    for (ptrdiff_t row = 0; row < spans->rows && unfit >= 0; row++) {
        Content content;
        int64_t value = 0;
        int has = content_at(block, spans, row, &copy, &content), fits = 0;
        if (has > 0) {
            fits = integer_of(&content, bits, &value);
            unfit += !fits;
        }
        out[row] = fits ? value : 0;
        put_bit(valid, row, fits);
        unfit = has < 0 ? has : unfit;
    }
    free(copy.bytes);
    return unfit;
}

ptrdiff_t object_decimals(const Block *block, const Spans *spans, double *out, uint8_t *valid, Hard *hard)
{
    ptrdiff_t unfit = 0;
    Copied copy = {0};
    for (ptrdiff_t row = 0; row < spans->rows && unfit >= 0; row++) {
        Content content;
        double value = 0;
        int has = content_at(block, spans, row, &copy, &content), fits = 0;
        if (has > 0 && !is_number(content.at, content.end)) {
            unfit++;
        } else if (has > 0) {
            fits = read_exactly(content.at, content.end, &value);
            if (!fits)
                has = add_hard(hard, row);
        }
        out[row] = fits ? value : 0;
        put_bit(valid, row, fits);
        unfit = has < 0 ? has : unfit;
    }
    free(copy.bytes);
    return unfit;
}

/* Whether a value is a word, of a text in any case. */
static int is_word(const Content *content, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(content->end - content->at) != size)
        return 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = content->at[i];
        if (content->is_text && is(UPPER, byte))
            byte |= 0x20;
        if (byte != (uint8_t)word[i])
            return 0;
    }
    return 1;
}

ptrdiff_t object_booleans(const Block *block, const Spans *spans, uint8_t *out, uint8_t *valid)
{
    ptrdiff_t unfit = 0;
    Copied copy = {0};
    for (ptrdiff_t row = 0; row < spans->rows && unfit >= 0; row++) {
        Content content;
        int has = content_at(block, spans, row, &copy, &content);
        int is_true = has > 0 && is_word(&content, "true");
        int fits = is_true || (has > 0 && is_word(&content, "false"));
        put_bit(out, row, is_true);
        put_bit(valid, row, fits);
        unfit = has < 0 ? has : unfit + (has && !fits);
    }
    free(copy.bytes);
    return unfit;
}

/* A text without its quotes, or any other value as it is written; 1, 0 or BAD. */
static inline int written_at(const Block *block, const Spans *spans, ptrdiff_t row, const uint8_t **at,
                             const uint8_t **end, int *is_text)
{
    fetch_ahead(block, spans, row);
    int has = text_at(block, spans, row, at, end);
    *is_text = 0;
    if (has <= 0)
        return has;
    if (*at == *end)
        return BAD;
    *is_text = **at == '"';
    if (*is_text) {
        ++*at;
        --*end;
    }
    return *at <= *end ? 1 : BAD;
}

ptrdiff_t measure_object_texts(const Block *block, const Spans *spans, int escaped, int64_t *offsets, uint8_t *valid,
                               ptrdiff_t *nulls)
{
    int64_t size = 0;
    *nulls = 0;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at = NULL, *end = NULL;
        int is_text, has = written_at(block, spans, row, &at, &end, &is_text);
        ptrdiff_t own = has <= 0 ? has : escaped && is_text ? unescaped(at, end, NULL) : end - at;
        if (own < 0)
            return BAD;
        offsets[row] = size;
        size += own;
        *nulls += !has;
        put_bit(valid, row, has);
    }
    offsets[spans->rows] = size;
    return (ptrdiff_t)size;
}

int copy_object_texts(const Block *block, const Spans *spans, int escaped, uint8_t *out, ptrdiff_t size)
{
    const uint8_t *limit = block->bytes + block->size;
    uint8_t *out_end = out + size;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        int is_text, has = written_at(block, spans, row, &at, &end, &is_text);
        if (has == 0)
            continue;
        if (has < 0)
            return BAD;
        if (escaped && is_text && memchr(at, '\\', (size_t)(end - at)) != NULL) {
            ptrdiff_t own = unescaped(at, end, NULL);
            if (own < 0 || own > out_end - out)
                return BAD;
            unescaped(at, end, out);
            out += own;
            continue;
        }
        if (end - at > out_end - out)
            return BAD;
        /* Most texts are short: what is copied too much of one, the next one is written over. */
        if (end - at <= STRIDE && limit - at >= STRIDE && out_end - out >= STRIDE)
            memcpy(out, at, STRIDE);
        else
            memcpy(out, at, (size_t)(end - at));
        out += end - at;
    }
    return out == out_end ? DONE : BAD;
}
