/* Texts of JSON without their escapes; elf.agents.sources.objects.values defines it. */
#include "objects.h"

#define ESCAPE_BYTES 6 /* of one that is a number */
#define REPLACEMENT 0xFFFD

static inline int hexadecimal(uint8_t byte)
{
    return is(DIGIT, byte) ? byte - '0' : (byte & ~0x20) - 'A' + 10;
}

/* What a number of four digits is, behind \u; -1: it is none. */
static int32_t code_at(const uint8_t *at, const uint8_t *end)
{
    if (end - at < ESCAPE_BYTES || at[0] != '\\' || at[1] != 'u' || !all_of(HEX, at + 2, at + ESCAPE_BYTES))
        return -1;
    int32_t code = 0;
    for (int i = 2; i < ESCAPE_BYTES; i++)
        code = code << 4 | hexadecimal(at[i]);
    return code;
}

/* Write a character; how many bytes it has. */
static int put_character(int32_t code, uint8_t *out)
{
    static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (out == NULL)
        return size;
    for (int i = size - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (uint8_t)(first[size] | code);
    return size;
}

/* Read an escape; where it ends, NULL: it is none. Half a pair of surrogates is no character. */
static const uint8_t *read_escape(const uint8_t *at, const uint8_t *end, int32_t *code)
{
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u') {
        const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
        *code = letter == NULL ? 0 : bytes[letter - letters];
        return letter == NULL ? NULL : at + 2;
    }
    *code = code_at(at, end);
    if (*code < 0)
        return NULL;
    at += ESCAPE_BYTES;
    if (*code < 0xD800 || *code > 0xDFFF)
        return at;
    int32_t low = *code < 0xDC00 ? code_at(at, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        *code = REPLACEMENT;
        return at;
    }
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return at + ESCAPE_BYTES;
}

ptrdiff_t unescaped(const uint8_t *at, const uint8_t *end, uint8_t *out)
{
    ptrdiff_t size = 0;
    while (at < end) {
        const uint8_t *escape = memchr(at, '\\', (size_t)(end - at));
        ptrdiff_t plain = (escape == NULL ? end : escape) - at;
        if (out != NULL)
            memmove(out + size, at, (size_t)plain);
        size += plain;
        if (escape == NULL)
            break;
        int32_t code;
        at = read_escape(escape, end, &code);
        if (at == NULL)
            return BAD;
        size += put_character(code, out == NULL ? NULL : out + size);
    }
    return size;
}
