/* Numbers and durations: which texts are some, and what they are worth. elf.agents.sources.layouts.typed defines it. */
#include <float.h>
#include <math.h>

#include "lines.h"

/* So many digits fit in 64 bits, whatever they are. */
#define DIGITS_MAX 19
/* Digits of an exponent that may come to anything. */
#define EXPONENT_DIGITS_MAX 9
/* A double holds all integers up to here, and all powers of ten up to that one: one division or product of the two is
 * rounded once, so rightly. */
#define EXACT_MAX (UINT64_C(1) << 53)
#define EXACT_POWER_MAX 22

static const double powers[EXACT_POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline const uint8_t *skip_sign(const uint8_t *at, const uint8_t *end)
{
    return at < end && (*at == '+' || *at == '-') ? at + 1 : at;
}

int is_integer(const uint8_t *at, const uint8_t *end)
{
    at = skip_sign(at, end);
    return at < end && all_of(DIGIT, at, end);
}

int is_number(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *whole = skip_sign(at, end), *point = class_end(DIGIT, whole, end), *part_end = point;
    ptrdiff_t digits = point - whole;
    if (point < end && *point == '.') {
        part_end = class_end(DIGIT, point + 1, end);
        digits += part_end - point - 1;
    }
    if (digits == 0)
        return 0;
    if (part_end == end)
        return 1;
    if (*part_end != 'e' && *part_end != 'E')
        return 0;
    return is_integer(part_end + 1, end);
}

const uint8_t *unit_of(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *whole = skip_sign(at, end), *point = class_end(DIGIT, whole, end);
    if (point == whole)
        return NULL;
    if (point == end || *point != '.')
        return point;
    const uint8_t *part_end = class_end(DIGIT, point + 1, end);
    return part_end > point + 1 ? part_end : point;
}

int is_duration(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *unit = unit_of(at, end);
    return unit != NULL && in_seconds(0, unit, end) == 0;
}

double in_seconds(double number, const uint8_t *unit, const uint8_t *end)
{
    if (unit == end || same(unit, end, "ms"))
        return number / 1e3;
    if (same(unit, end, "s"))
        return number;
    if (same(unit, end, "us") || same(unit, end, "\xc2\xb5s") || same(unit, end, "\xce\xbcs"))
        return number / 1e6;
    if (same(unit, end, "ns"))
        return number / 1e9;
    if (same(unit, end, "m"))
        return number * 60;
    return same(unit, end, "h") ? number * 3600 : NAN;
}

/* Read digits behind those that have been read; how many are not zeros at the front. */
static const uint8_t *take_digits(const uint8_t *at, const uint8_t *end, uint64_t *digits, int *count)
{
    for (; at < end && is(DIGIT, *at); at++) {
        if (*count > 0 || *at != '0')
            ++*count;
        if (*count <= DIGITS_MAX)
            *digits = 10 * *digits + (uint64_t)(*at - '0');
        else
            *count = DIGITS_MAX + 1;
    }
    return at;
}

int in_64_bits(const uint8_t *at, const uint8_t *end, int64_t *out)
{
    const uint8_t *begin = skip_sign(at, end);
    int is_negative = *at == '-', count = 0;
    uint64_t digits = 0, most = (uint64_t)INT64_MAX + (uint64_t)is_negative;
    take_digits(begin, end, &digits, &count);
    *out = 0;
    if (count > DIGITS_MAX || digits > most)
        return 0;
    *out = (int64_t)(is_negative ? 0 - digits : digits);
    return 1;
}

/* The power of ten that an exponent of a whole number says; 0: no line has room for so many zeros. */
static int take_exponent(const uint8_t *at, const uint8_t *end, ptrdiff_t *power)
{
    int is_negative = *at == '-', count = 0;
    uint64_t digits = 0;
    take_digits(skip_sign(at, end), end, &digits, &count);
    if (count > EXPONENT_DIGITS_MAX)
        return 0;
    *power += is_negative ? -(ptrdiff_t)digits : (ptrdiff_t)digits;
    return 1;
}

/* Put a digit behind so many zeros, of a number that has 64 bits; 0: it has not. */
static int put_digit(uint64_t *number, ptrdiff_t zeros, uint64_t digit)
{
    for (; zeros > 0 && *number <= INT64_MAX / 10; zeros--)
        *number *= 10;
    if (zeros > 0 || *number > INT64_MAX / 10)
        return 0;
    *number = 10 * *number + digit;
    return 1;
}

int whole_in_64_bits(const uint8_t *at, const uint8_t *end, int64_t *out)
{
    int is_negative = *at == '-', is_behind = 0;
    uint64_t number = 0, most = (uint64_t)INT64_MAX + (uint64_t)is_negative;
    /* Of the digits up to the last one that is no zero: the power of ten behind them; then the zeros that follow. */
    ptrdiff_t power = 0, places = 0, zeros = 0;
    *out = 0;
    for (at = skip_sign(at, end); at < end && (*at == '.' || is(DIGIT, *at)); at++) {
        if (*at == '.') {
            is_behind = 1;
            continue;
        }
        places += is_behind;
        if (*at == '0') {
            zeros += number != 0;
            power += number != 0 && !is_behind;
            continue;
        }
        if (!put_digit(&number, zeros, (uint64_t)(*at - '0')))
            return 0;
        zeros = 0;
        power = -places;
    }
    if (number == 0)
        return 1;
    if (at < end && !take_exponent(at + 1, end, &power))
        return 0;
    if (power < 0 || (power > 0 && !put_digit(&number, power - 1, 0)) || number > most)
        return 0;
    *out = (int64_t)(is_negative ? 0 - number : number);
    return 1;
}

/* Read up to eight digits, of which eight bytes may be read; 0: there is something else. All at once: pairs of digits
 * become numbers up to 99, pairs of these up to 9,999, and these one number. */
static inline int read_few_digits(const uint8_t *at, ptrdiff_t size, uint64_t *out)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    /* Zeros before the digits, which are the last bytes then. */
    uint64_t text = size < 8 ? word << (64 - 8 * size) | UINT64_C(0x3030303030303030) >> 8 * size : word;
    uint64_t digits = text - UINT64_C(0x3030303030303030);
    if (((digits + UINT64_C(0x7676767676767676)) | digits) & UINT64_C(0x8080808080808080))
        return 0;
    digits = digits * 10 + (digits >> 8);
    digits = (digits & UINT64_C(0x00FF00FF00FF00FF)) * 100 + ((digits >> 16) & UINT64_C(0x00FF00FF00FF00FF));
    *out = (digits & 0xFFFF) * 10000 + ((digits >> 32) & 0xFFFF);
    return 1;
}

ptrdiff_t read_integers(const Block *block, const Spans *spans, int64_t *out, uint8_t *valid)
{
    ptrdiff_t unfit = 0;
    const uint8_t *limit = block->bytes + block->size;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        int64_t value = 0;
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0)
            return BAD;
        uint64_t few;
        if (has && end - at >= 1 && end - at <= 8 && limit - at >= 8 && read_few_digits(at, end - at, &few)) {
            value = (int64_t)few;
        } else if (has && !(end - at == 1 && *at == '-')) {
            if (!is_integer(at, end))
                return BAD;
            has = in_64_bits(at, end, &value);
            unfit += !has;
        }
        out[row] = value;
        put_bit(valid, row, has);
    }
    return unfit;
}

/* The power of ten that an exponent says; some that no double has if it is beyond all of them. */
static ptrdiff_t exponent_of(const uint8_t *at, const uint8_t *end)
{
    int is_negative = *at == '-', count = 0;
    uint64_t digits = 0;
    take_digits(skip_sign(at, end), end, &digits, &count);
    ptrdiff_t power = count > 4 ? 9999 : (ptrdiff_t)digits;
    return is_negative ? -power : power;
}

int read_exactly(const uint8_t *at, const uint8_t *end, double *out)
{
    int is_negative = *at == '-', count = 0;
    uint64_t digits = 0;
    ptrdiff_t power = 0;
    at = take_digits(skip_sign(at, end), end, &digits, &count);
    if (at < end && *at == '.') {
        const uint8_t *part = at + 1;
        at = take_digits(part, end, &digits, &count);
        power = part - at;
    }
    if (at < end)
        power += exponent_of(at + 1, end);
    if (FLT_EVAL_METHOD != 0 || count > DIGITS_MAX || digits > EXACT_MAX || power < -EXACT_POWER_MAX ||
        power > EXACT_POWER_MAX)
        return 0;
    double value = power < 0 ? (double)digits / powers[-power] : (double)digits * powers[power];
    *out = is_negative ? -value : value;
    return 1;
}

ptrdiff_t read_decimals(const Block *block, const Spans *spans, int is_duration_kind, double *out, uint8_t *valid,
                        ptrdiff_t *hard)
{
    ptrdiff_t unfit = 0;
    *hard = 0;
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        double value = 0;
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0 || (has && !(is_duration_kind ? is_duration(at, end) : is_number(at, end))))
            return BAD;
        if (has) {
            const uint8_t *unit = is_duration_kind ? unit_of(at, end) : end;
            if (!read_exactly(at, unit, &value)) {
                value = NAN;
                ++*hard;
            } else if (is_duration_kind) {
                value = in_seconds(value, unit, end);
            }
            if (isinf(value)) {
                value = 0;
                has = 0;
                unfit++;
            }
        }
        out[row] = value;
        put_bit(valid, row, has);
    }
    return unfit;
}
