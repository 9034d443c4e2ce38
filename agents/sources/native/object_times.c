/* Event times of JSON: texts in ISO-8601 and epoch numbers; elf.agents.sources.event_time defines it. All others are
 * left to Python. */
#include <float.h>
#include <math.h>

#include "layout.h"
#include "objects.h"

/* Bytes of a time up to its seconds; up to its minutes; with all there may be. */
#define LEAST_BYTES 19
#define MINUTE_BYTES 16
#define MOST_BYTES 35
#define OFFSET_HOURS_MAX 18
/* Times lie from the year 1 to the year 9999. */
#define LEAST_MS INT64_C(-62135596800000)
#define MOST_MS INT64_C(253402300799999)
/* A number below this is in seconds. */
#define EPOCH_MS_FROM 1e11
/* A number of so many digits may be a date and a time of day, which Python sees. */
#define DATE_FROM 1e13
#define DATE_BELOW 1e14
#define SECONDS_DIGITS_MAX 10
#define ROUNDED_MICROS 4

/* The newest time up to its minutes: neighbours in a log mostly share it. */
typedef struct {
    uint8_t text[MINUTE_BYTES];
    int64_t ms;
    int is_known;
} Minute;

/* Two digits; more than 99: they are none. */
static inline unsigned two(const uint8_t *at)
{
    unsigned tens = at[0] - (unsigned)'0', ones = at[1] - (unsigned)'0';
    return tens > 9 || ones > 9 ? 100 : 10 * tens + ones;
}

/* Read `YYYY-MM-DDThh:mm`; 0: it is none. */
static int read_minute(const uint8_t *at, int64_t *ms)
{
    static const int before[13] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    unsigned century = two(at), years = two(at + 2), month = two(at + 5), day = two(at + 8);
    unsigned hour = two(at + 11), minute = two(at + 14);
    if (at[4] != '-' || at[7] != '-' || at[13] != ':' || (at[10] != 'T' && at[10] != ' ' && at[10] != 't'))
        return 0;
    if (century > 99 || years > 99 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59)
        return 0;
    int year = (int)(100 * century + years);
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year == 0 || (int)day > before[month] - before[month - 1] + (leap && month == 2))
        return 0;
    int64_t past = year - 1;
    int64_t days = past * 365 + past / 4 - past / 100 + past / 400 - 719162;
    days += before[month - 1] + (leap && month > 2) + (int)day - 1;
    *ms = ((days * 24 + hour) * 60 + minute) * 60000;
    return 1;
}

/* Read what comes behind the seconds: a part of one, and an offset. 0: it is none of them. */
static int read_rest(const uint8_t *at, const uint8_t *end, int64_t *ms)
{
    if (at < end && *at == '.') {
        const uint8_t *part = ++at;
        for (int unit = 100; at < end && is(DIGIT, *at) && at - part < 9; at++, unit /= 10)
            *ms += unit * (*at - '0');
        if (at == part)
            return 0;
    }
    if (at == end)
        return 1;
    if (end - at == 1)
        return *at == 'Z' || *at == 'z';
    ptrdiff_t size = end - at;
    if ((*at != '+' && *at != '-') || (size != 3 && size != 5 && (size != 6 || at[3] != ':')))
        return 0;
    unsigned hours = two(at + 1), minutes = size == 3 ? 0 : two(end - 2);
    if (hours > OFFSET_HOURS_MAX || minutes > 59)
        return 0;
    int64_t offset = (int64_t)(60 * hours + minutes) * 60000;
    *ms += *at == '-' ? offset : -offset;
    return *ms >= LEAST_MS && *ms <= MOST_MS;
}

/* A text between its quotes in ms; NO_TIME: it is none, or Python has to see. */
static int64_t iso_time(const uint8_t *at, const uint8_t *end, Minute *newest)
{
    if (end - at < LEAST_BYTES || end - at > MOST_BYTES)
        return NO_TIME;
    if (!newest->is_known || memcmp(newest->text, at, MINUTE_BYTES) != 0) {
        newest->is_known = read_minute(at, &newest->ms);
        if (!newest->is_known)
            return NO_TIME;
        memcpy(newest->text, at, MINUTE_BYTES);
    }
    unsigned second = two(at + 17);
    int64_t ms = newest->ms + second * 1000;
    return at[16] == ':' && second <= 59 && read_rest(at + LEAST_BYTES, end, &ms) ? ms : NO_TIME;
}

/* Seconds with more decimals than a double has: in ms, unless these lie so near to a whole ms that rounding to a double
 * and to the microsecond may lead beyond it. */
static int64_t long_epoch_time(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *point = class_end(DIGIT, at, end), *part = point + 1;
    if (point - at > SECONDS_DIGITS_MAX || end - part < 6 || *point != '.' || !all_of(DIGIT, part, end))
        return NO_TIME;
    int64_t micros = 0;
    for (; at < part + 6; at++)
        micros = at == point ? micros : 10 * micros + (*at - '0');
    int64_t beside = micros % 1000;
    return beside < ROUNDED_MICROS || beside > 1000 - ROUNDED_MICROS ? NO_TIME : micros / 1000;
}

/* A number in ms, rounded down from the microsecond, which its decimals are rounded to. */
static int64_t epoch_time(const uint8_t *at, const uint8_t *end)
{
    double number;
    if (FLT_EVAL_METHOD != 0 || !is_number(at, end))
        return NO_TIME;
    if (!read_exactly(at, end, &number))
        return long_epoch_time(at, end);
    if (number < 0 || (number >= DATE_FROM && number < DATE_BELOW))
        return NO_TIME;
    double milliseconds = number;
    if (number < EPOCH_MS_FROM)
        milliseconds = number * 1000;
    double scaled = milliseconds * 1000;
    double micros = rint(scaled);
    if (!(micros >= (double)LEAST_MS * 1000 && micros <= (double)MOST_MS * 1000))
        return NO_TIME;
    return (int64_t)micros / 1000;
}

ptrdiff_t object_times(const Block *block, const Spans *spans, int64_t *out)
{
    ptrdiff_t left = 0, known_size = -1;
    const uint8_t *known = NULL;
    Minute newest = {.is_known = 0};
    for (ptrdiff_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        fetch_ahead(block, spans, row);
        int has = text_at(block, spans, row, &at, &end);
        if (has < 0 || (has && at == end))
            return BAD;
        if (has && end - at == known_size && memcmp(at, known, (size_t)known_size) == 0) {
            out[row] = out[row - 1];
        } else if (has) {
            out[row] = *at == '"' ? iso_time(at + 1, end - (end - at > 1), &newest) : epoch_time(at, end);
            known = at;
            known_size = end - at;
        } else {
            out[row] = NO_TIME;
            known_size = -1;
        }
        left += has && out[row] == NO_TIME;
    }
    return left;
}
