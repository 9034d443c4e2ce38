/* Times of the notations that elf.agents.sources.times.notations has, whose docstring lists their codes. */
#include "program.h"

#define OFFSET_HOURS_MAX 18
#define YEARLESS 2000
#define NAME_BYTES 3
/* Times lie from the year 1 to the year 9999. */
#define LEAST_MS INT64_C(-62135596800000)
#define MOST_MS INT64_C(253402300799999)

/* What has been read of one time. */
typedef struct {
    const uint8_t *at, *end;
    int numbers[TIME_NUMBERS]; /* -1: not said */
    int is_pm, offset_minutes;
    int is_apart; /* a space stands before the offset */
    int64_t part_ns;
    int64_t whole_ms;
    int is_whole; /* `whole_ms` says it all but the part of a second */
    int parts;    /* how many parts of a second there are */
    const uint8_t *part_at;
    int part_digits;
} Clock;

static const Clock nothing_read = {
    .numbers = {[YEAR] = YEARLESS, [SHORT_YEAR] = -1, [MONTH] = 1, [DAY] = 1, [DAY_OF_YEAR] = -1, [HALF_HOUR] = -1}};

static inline int byte_at(const Clock *clock, ptrdiff_t ahead)
{
    return clock->end - clock->at > ahead ? clock->at[ahead] : -1;
}

static inline int is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

/* Take so many digits; behind the line there is none. */
static inline int take_digits(Clock *clock, int count, int least, int most, int *out)
{
    unsigned value = 0, digit;
    const uint8_t *at = clock->at;
    for (int i = 0; i < count; i++) {
        if ((digit = at[i] - (unsigned)'0') > 9)
            return 0;
        value = 10 * value + digit;
    }
    clock->at = at + count;
    *out = (int)value;
    return (int)value >= least && (int)value <= most;
}

static inline void put_part(Clock *clock, const uint8_t *at, int digits, int64_t part)
{
    clock->part_at = at;
    clock->part_digits = digits;
    clock->parts++;
    for (; digits < 9; digits++)
        part *= 10;
    clock->part_ns = part;
}

/* Take all digits that follow, up to one more than there may be; returns how many. */
static int take_run(Clock *clock, int most, uint64_t *out)
{
    int count = 0;
    *out = 0;
    while (count <= most && is_digit(byte_at(clock, 0))) {
        *out = 10 * *out + (uint64_t)(*clock->at++ - '0');
        count++;
    }
    return count;
}

/* Take a name; returns its number, -1: it is none of them. */
static int take_name(Clock *clock, const char *names)
{
    if (clock->end - clock->at < NAME_BYTES)
        return -1;
    for (int i = 0; names[NAME_BYTES * i]; i++) {
        if (memcmp(clock->at, names + NAME_BYTES * i, NAME_BYTES) == 0) {
            clock->at += NAME_BYTES;
            return i;
        }
    }
    return -1;
}

static int take_padded_day(Clock *clock)
{
    if (byte_at(clock, 0) != ' ')
        return take_digits(clock, 2, 1, 31, &clock->numbers[DAY]);
    clock->at++;
    return take_digits(clock, 1, 1, 9, &clock->numbers[DAY]);
}

static int take_fraction(Clock *clock)
{
    int point = byte_at(clock, 0);
    if ((point != '.' && point != ',') || !is_digit(byte_at(clock, 1)))
        return 1;
    const uint8_t *at = ++clock->at;
    uint64_t part;
    int digits = take_run(clock, 9, &part);
    put_part(clock, at, digits, (int64_t)part);
    return digits <= 9;
}

static int take_part(Clock *clock, int digits)
{
    int part;
    const uint8_t *at = clock->at;
    if (!take_digits(clock, digits, 0, 999999999, &part))
        return 0;
    put_part(clock, at, digits, part);
    return 1;
}

static int take_offset(Clock *clock)
{
    int sign = byte_at(clock, 0), hours, minutes = 0;
    if (sign == 'Z') {
        clock->at++;
        return 1;
    }
    if (sign != '+' && sign != '-')
        return 0;
    clock->at++;
    if (!take_digits(clock, 2, 0, OFFSET_HOURS_MAX, &hours))
        return 0;
    int colon = byte_at(clock, 0) == ':';
    if (colon || is_digit(byte_at(clock, 0))) {
        clock->at += colon;
        if (!take_digits(clock, 2, 0, 59, &minutes))
            return 0;
    }
    clock->offset_minutes = (sign == '-' ? -1 : 1) * (60 * hours + minutes);
    return 1;
}

/* A name of three or four letters, or none; where words may follow the time, only the one behind an offset apart. */
static int take_zone_name(Clock *clock, const Step *step)
{
    int letters = 0;
    if (byte_at(clock, 0) != ' ')
        return 1;
    while (letters < 5 && byte_at(clock, letters + 1) >= 'A' && byte_at(clock, letters + 1) <= 'Z')
        letters++;
    int next = byte_at(clock, letters + 1);
    if (is_stop(step, ' ') && !(clock->is_apart && letters == 3 && memcmp(clock->at, " UTC", 4) == 0))
        return 1;
    if ((letters == 3 || letters == 4) && (next < 0 || is_stop(step, (uint8_t)next)))
        clock->at += letters + 1;
    return 1;
}

static int take_constant(Clock *clock, int code)
{
    int byte = byte_at(clock, 0), next = byte_at(clock, 1);
    switch (code) {
    case '_': /* what follows is an offset: a space behind which there is none is no part of the time */
        clock->is_apart = byte == ' ' && (next == '+' || next == '-' || next == 'Z');
        clock->at += clock->is_apart;
        return 1;
    case 't':
        clock->at++;
        return byte == 'T' || byte == ' ';
    default: return take_name(clock, "GMTUTC") >= 0;
    }
}

static int take_half(Clock *clock)
{
    int first = byte_at(clock, 0) & ~0x20, second = byte_at(clock, 1);
    if ((first != 'A' && first != 'P') || second < 0 || (second & ~0x20) != 'M')
        return 0;
    clock->is_pm = first == 'P';
    clock->at += 2;
    return 1;
}

static int take_seconds(Clock *clock)
{
    uint64_t seconds;
    int digits = take_run(clock, 11, &seconds);
    if (digits < 1 || digits > 11)
        return 0;
    clock->whole_ms = (int64_t)seconds * 1000;
    clock->is_whole = 1;
    return 1;
}

/* Whether fourteen digits are a date and a time of day. */
static int is_date(uint64_t number)
{
    uint64_t month = number / 100000000 % 100, day = number / 1000000 % 100;
    return month >= 1 && month <= 12 && day >= 1 && day <= 31 && number / 10000 % 100 <= 23 &&
           number / 100 % 100 <= 59 && number % 100 <= 59;
}

/* Seconds, ms, us or ns, told apart by the number of digits. */
static int take_epoch(Clock *clock)
{
    uint64_t number;
    int digits = take_run(clock, 19, &number);
    if (digits < 1 || digits > 19 || (digits == 14 && is_date(number)))
        return 0;
    clock->is_whole = 1;
    clock->whole_ms = (int64_t)(digits <= 11   ? number * 1000
                                : digits <= 14 ? number
                                : digits <= 17 ? number / 1000
                                               : number / 1000000);
    if (digits > 14)
        return 1;
    int64_t known = clock->part_ns;
    int fits = take_fraction(clock);
    /* Whether it counts depends on the digits before. */
    clock->parts += 2;
    if (digits > 11)
        clock->part_ns = known;
    return fits;
}

static int take_hexadecimal(Clock *clock)
{
    int64_t value = 0;
    if (clock->end - clock->at < 8 || !all_of(HEX, clock->at, clock->at + 8))
        return 0;
    for (int i = 0; i < 8; i++) {
        uint8_t byte = *clock->at++;
        value = value << 4 | (is(DIGIT, byte) ? byte - '0' : (byte & ~0x20) - 'A' + 10);
    }
    clock->whole_ms = value * 1000;
    clock->is_whole = 1;
    return 1;
}

static inline int take_literal(Clock *clock, Text text)
{
    if ((size_t)(clock->end - clock->at) < text.size || *clock->at != *text.at ||
        (text.size > 1 && memcmp(clock->at, text.at, text.size) != 0))
        return 0;
    clock->at += text.size;
    return 1;
}

static int take_code(Clock *clock, int code, const Step *step)
{
    int number;
    switch (code) {
    case 'b':
        number = take_name(clock, "JanFebMarAprMayJunJulAugSepOctNovDec");
        clock->numbers[MONTH] = number + 1;
        return number >= 0;
    case 'a': return take_name(clock, "MonTueWedThuFriSatSun") >= 0;
    case 'e': return take_padded_day(clock);
    case 'f': return take_fraction(clock);
    case '3':
    case '6':
    case '9': return take_part(clock, code - '0');
    case 'z': return take_offset(clock);
    case 'u': return take_zone_name(clock, step);
    case 'p': return take_half(clock);
    case 's': return take_seconds(clock);
    case 'Q': return take_epoch(clock);
    case 'X': return take_hexadecimal(clock);
    default: return take_constant(clock, code);
    }
}

static int is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days before the year since the first of all; before 1970 there are 719,162. */
static int64_t days_before(int year)
{
    int64_t before = year - 1;
    return before * 365 + before / 4 - before / 100 + before / 400 - 719162;
}

/* The time in ms; 0: there is no such day, or it is beyond all years. */
static int in_ms(const Clock *clock, int64_t *ms)
{
    static const int before[13] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    const int *numbers = clock->numbers;
    *ms = clock->whole_ms;
    if (!clock->is_whole) {
        int year = numbers[YEAR], hour = numbers[HOUR], month = numbers[MONTH];
        if (numbers[SHORT_YEAR] >= 0)
            year = numbers[SHORT_YEAR] + (numbers[SHORT_YEAR] >= 70 ? 1900 : 2000);
        if (numbers[HALF_HOUR] >= 0)
            hour = numbers[HALF_HOUR] % 12 + (clock->is_pm ? 12 : 0);
        int leap = is_leap(year);
        int64_t days = days_before(year);
        if (numbers[DAY_OF_YEAR] >= 0) {
            if (numbers[DAY_OF_YEAR] == 366 && !leap)
                return 0;
            days += numbers[DAY_OF_YEAR] - 1;
        } else {
            if (numbers[DAY] > before[month] - before[month - 1] + (leap && month == 2))
                return 0;
            days += before[month - 1] + (leap && month > 2) + numbers[DAY] - 1;
        }
        int64_t minutes = (days * 24 + hour) * 60 + numbers[MINUTE] - clock->offset_minutes;
        *ms = (minutes * 60 + numbers[SECOND]) * 1000;
    }
    *ms += clock->part_ns / 1000000;
    return *ms >= LEAST_MS && *ms <= MOST_MS;
}

/* Read a time of one notation; `clock->at` is where it ends, or where it turned out to be none. */
static int read_notation(const Notation *notation, const Step *step, Clock *clock, int64_t *ms)
{
    for (const TimeItem *item = notation->items; item < notation->items + notation->count; item++) {
        int fits = item->digits      ? take_digits(clock, item->digits, item->least, item->most,
                                                   &clock->numbers[item->number])
                   : item->code == 0 ? take_literal(clock, item->text)
                                     : take_code(clock, item->code, step);
        if (!fits)
            return 0;
    }
    return in_ms(clock, ms);
}

/* Remember a time that was read at a place where so many bytes were looked at. `has_part`: the part of a second may be
 * any other one of as many digits. */
static void remember(Remembered *newest, const Clock *clock, const uint8_t *at, size_t looked_at, int64_t ms,
                     int has_part)
{
    newest->looked_at = looked_at;
    newest->size = (size_t)(clock->at - at);
    newest->ms = has_part ? ms - clock->part_ns / 1000000 : ms;
    newest->part_digits = has_part ? clock->part_digits : 0;
    newest->part_at = has_part ? (size_t)(clock->part_at - at) : 0;
    newest->vectors = (int)((looked_at + VECTOR_BYTES - 1) / VECTOR_BYTES);
    memcpy(newest->text, at, looked_at);
    uint8_t same[sizeof newest->text] = {0}, part[sizeof newest->text] = {0};
    memset(same, 0xFF, looked_at);
    memset(same + newest->part_at, 0, (size_t)newest->part_digits);
    memset(part + newest->part_at, 0xFF, (size_t)newest->part_digits);
    for (int i = 0; i < REMEMBERED_VECTORS; i++) {
        newest->same[i] = hits(load(same + i * VECTOR_BYTES));
        newest->part[i] = hits(load(part + i * VECTOR_BYTES));
    }
}

const uint8_t *read_time(Step *step, Line *line, const uint8_t *at, Value *value)
{
    size_t beyond = 0;
    value->begin = at;
    for (size_t i = 0; i < step->notation_count; i++) {
        const Notation *notation = &step->notations[i];
        Clock clock = nothing_read;
        clock.at = at;
        clock.end = line->end;
        int fits = read_notation(notation, step, &clock, &value->ms) && ends_here(step, line, clock.at);
        size_t looked_at = (size_t)(clock.at - at) + (fits ? notation->ahead : notation->beyond);
        beyond = looked_at > beyond ? looked_at : beyond;
        if (fits) {
            if (beyond <= sizeof step->newest->text && beyond <= (size_t)(line->end - at))
                remember(step->newest, &clock, at, beyond, value->ms, i == 0 && clock.parts == 1);
            value->end = clock.at;
            return clock.at;
        }
    }
    return misfit(line, at);
}
