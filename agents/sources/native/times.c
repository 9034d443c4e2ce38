/* Times of the notations that elf.agents.sources.times.notations has, whose docstring lists their codes. */
#include "program.h"

#define OFFSET_HOURS_MAX 18
#define YEARLESS 2000
#define NAME_BYTES 3
/* Times lie from the year 1 to the year 9999. */
#define LEAST_MS INT64_C(-62135596800000)
#define MOST_MS INT64_C(253402300799999)
/* What a code looks at, at most, behind what it takes: a zone's name, its space and what comes after it; and where it
 * takes nothing, up to nine digits. */
#define AHEAD_MAX 8
#define BEYOND_MAX 10

/* What has been read of one time. */
typedef struct {
    const uint8_t *at, *end;
    int year, short_year, month, day, day_of_year, hour, half_hour, minute, second; /* -1: not said */
    int is_pm, offset_minutes;
    int64_t part_ns;
    int64_t whole_ms;
    int is_whole; /* `whole_ms` says it all but the part of a second */
} Clock;

static inline int byte_at(const Clock *clock, ptrdiff_t ahead)
{
    return clock->end - clock->at > ahead ? clock->at[ahead] : -1;
}

static inline int is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static inline int take_digits(Clock *clock, int count, int least, int most, int *out)
{
    int value = 0;
    if (clock->end - clock->at < count)
        return 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit(clock->at[i]))
            return 0;
        value = 10 * value + clock->at[i] - '0';
    }
    clock->at += count;
    *out = value;
    return value >= least && value <= most;
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

static int64_t in_ns(uint64_t part, int digits)
{
    for (; digits < 9; digits++)
        part *= 10;
    return (int64_t)part;
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
        return take_digits(clock, 2, 1, 31, &clock->day);
    clock->at++;
    return take_digits(clock, 1, 1, 9, &clock->day);
}

static int take_fraction(Clock *clock)
{
    int point = byte_at(clock, 0);
    if ((point != '.' && point != ',') || !is_digit(byte_at(clock, 1)))
        return 1;
    clock->at++;
    uint64_t part;
    int digits = take_run(clock, 9, &part);
    clock->part_ns = digits <= 9 ? in_ns(part, digits) : 0;
    return digits <= 9;
}

static int take_part(Clock *clock, int digits)
{
    int part;
    if (!take_digits(clock, digits, 0, 999999999, &part))
        return 0;
    clock->part_ns = in_ns((uint64_t)part, digits);
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

/* A name of three or four letters, or none. */
static int take_zone_name(Clock *clock, const Step *step)
{
    int letters = 0;
    if (byte_at(clock, 0) != ' ')
        return 1;
    while (letters < 5 && byte_at(clock, letters + 1) >= 'A' && byte_at(clock, letters + 1) <= 'Z')
        letters++;
    int next = byte_at(clock, letters + 1);
    if ((letters == 3 || letters == 4) && (next < 0 || is_stop(step, (uint8_t)next)))
        clock->at += letters + 1;
    return 1;
}

static int take_constant(Clock *clock, int code)
{
    int byte = byte_at(clock, 0), next = byte_at(clock, 1);
    switch (code) {
    case '_': /* what follows is an offset: a space behind which there is none is no part of the time */
        clock->at += byte == ' ' && (next == '+' || next == '-' || next == 'Z');
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

/* Seconds, ms, us or ns, told apart by the number of digits. */
static int take_epoch(Clock *clock)
{
    uint64_t number;
    int digits = take_run(clock, 19, &number);
    if (digits < 1 || digits > 19)
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

static int take(Clock *clock, const TimeItem *item, const Step *step)
{
    int number;
    switch (item->code) {
    case 0:
        if ((size_t)(clock->end - clock->at) < item->text.size ||
            memcmp(clock->at, item->text.at, item->text.size) != 0)
            return 0;
        clock->at += item->text.size;
        return 1;
    case 'Y': return take_digits(clock, 4, 1, 9999, &clock->year);
    case 'y': return take_digits(clock, 2, 0, 99, &clock->short_year);
    case 'm': return take_digits(clock, 2, 1, 12, &clock->month);
    case 'd': return take_digits(clock, 2, 1, 31, &clock->day);
    case 'j': return take_digits(clock, 3, 1, 366, &clock->day_of_year);
    case 'H': return take_digits(clock, 2, 0, 23, &clock->hour);
    case 'I': return take_digits(clock, 2, 1, 12, &clock->half_hour);
    case 'M': return take_digits(clock, 2, 0, 59, &clock->minute);
    case 'S': return take_digits(clock, 2, 0, 60, &clock->second);
    case 'b':
        number = take_name(clock, "JanFebMarAprMayJunJulAugSepOctNovDec");
        clock->month = number + 1;
        return number >= 0;
    case 'a': return take_name(clock, "MonTueWedThuFriSatSun") >= 0;
    case 'e': return take_padded_day(clock);
    case 'f': return take_fraction(clock);
    case '3':
    case '6':
    case '9': return take_part(clock, item->code - '0');
    case 'z': return take_offset(clock);
    case 'u': return take_zone_name(clock, step);
    case 'p': return take_half(clock);
    case 's': return take_seconds(clock);
    case 'Q': return take_epoch(clock);
    case 'X': return take_hexadecimal(clock);
    default: return take_constant(clock, item->code);
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
    *ms = clock->whole_ms;
    if (!clock->is_whole) {
        int year = clock->short_year < 0 ? clock->year : clock->short_year + (clock->short_year >= 70 ? 1900 : 2000);
        int hour = clock->half_hour < 0 ? clock->hour : clock->half_hour % 12 + (clock->is_pm ? 12 : 0);
        int leap = is_leap(year), month = clock->month;
        int64_t days = days_before(year);
        if (clock->day_of_year >= 0) {
            if (clock->day_of_year == 366 && !leap)
                return 0;
            days += clock->day_of_year - 1;
        } else {
            if (clock->day > before[month] - before[month - 1] + (leap && month == 2))
                return 0;
            days += before[month - 1] + (leap && month > 2) + clock->day - 1;
        }
        *ms = (((days * 24 + hour) * 60 + clock->minute - clock->offset_minutes) * 60 + clock->second) * 1000;
    }
    *ms += clock->part_ns / 1000000;
    return *ms >= LEAST_MS && *ms <= MOST_MS;
}

/* Read a time of one notation; `clock->at` is where it ends, or where it turned out to be none. */
static int read_notation(const Notation *notation, const Step *step, Clock *clock, int64_t *ms)
{
    for (size_t i = 0; i < notation->count; i++)
        if (!take(clock, &notation->items[i], step))
            return 0;
    return in_ms(clock, ms);
}

static inline int is_remembered(const Remembered *newest, const uint8_t *at, const uint8_t *end)
{
    return newest->looked_at && (size_t)(end - at) >= newest->looked_at &&
           memcmp(at, newest->text, newest->looked_at) == 0;
}

static void remember(Remembered *newest, const uint8_t *at, size_t size, size_t looked_at, int64_t ms)
{
    newest->looked_at = looked_at;
    newest->size = size;
    newest->ms = ms;
    newest->quick = looked_at <= 2 * VECTOR_BYTES ? looked_at : SIZE_MAX;
    for (size_t i = 0; i < 2; i++) {
        size_t before = i * VECTOR_BYTES, count = looked_at > before ? looked_at - before : 0;
        newest->wanted[i] = count < VECTOR_BYTES ? hits_before((int)count) : EVERY_HIT;
    }
    memcpy(newest->text, at, looked_at);
}

const uint8_t *read_time(Step *step, Line *line, const uint8_t *at, Value *value)
{
    Remembered *newest = &step->newest;
    value->begin = at;
    if (is_remembered(newest, at, line->end)) {
        value->end = at + newest->size;
        value->ms = newest->ms;
        return value->end;
    }
    size_t beyond = 0;
    for (size_t i = 0; i < step->notation_count; i++) {
        const Notation *notation = &step->notations[i];
        Clock clock = {.at = at, .end = line->end, .year = YEARLESS, .month = 1, .day = 1};
        clock.short_year = clock.day_of_year = clock.half_hour = -1;
        int fits = read_notation(notation, step, &clock, &value->ms) && ends_here(step, line, clock.at);
        size_t size = (size_t)(clock.at - at), looked_at = size + (fits ? notation->ahead : notation->beyond);
        beyond = looked_at > beyond ? looked_at : beyond;
        if (fits) {
            if (beyond <= REMEMBERED_BYTES && beyond <= (size_t)(line->end - at))
                remember(newest, at, size, beyond, value->ms);
            value->end = clock.at;
            return clock.at;
        }
    }
    return misfit(line, at);
}

/* Whether the next item of a pattern is a code, and how long it is; 0: it is none. */
static size_t item_size(Text pattern)
{
    static const char codes[] = "YymdejbaHMSIpf369t_zuGsQX";
    if (*pattern.at == '%')
        return pattern.size > 1 && pattern.at[1] && strchr(codes, pattern.at[1]) != NULL ? 2 : 0;
    const uint8_t *percent = memchr(pattern.at, '%', pattern.size);
    return percent == NULL ? pattern.size : (size_t)(percent - pattern.at);
}

int count_items(Text pattern, size_t *count)
{
    for (*count = 0; pattern.size; ++*count) {
        size_t size = item_size(pattern);
        if (size == 0)
            return BAD;
        pattern.at += size;
        pattern.size -= size;
    }
    return DONE;
}

void put_notation(Notation *notation, Text pattern, TimeItem *items)
{
    *notation = (Notation){.items = items, .ahead = 1, .beyond = BEYOND_MAX};
    while (pattern.size) {
        size_t size = item_size(pattern);
        int is_code = *pattern.at == '%';
        items[notation->count++] = (TimeItem){is_code ? pattern.at[1] : 0, {pattern.at, size}};
        if (!is_code && size > notation->beyond)
            notation->beyond = size;
        /* A part of a second is looked for in two bytes, as is an offset behind a space. */
        if (is_code && strchr("fQ_", pattern.at[1]) != NULL && notation->ahead < 2)
            notation->ahead = 2;
        if (is_code && pattern.at[1] == 'u')
            notation->ahead = AHEAD_MAX;
        pattern.at += size;
        pattern.size -= size;
    }
}
