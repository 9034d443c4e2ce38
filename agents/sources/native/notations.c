/* Notations of times decoded from their patterns, whose codes elf.agents.sources.times.notations lists. */
#include "program.h"

/* What a code looks at, at most, behind what it takes: a zone's name, its space and what comes after it; and where it
 * takes nothing, up to nine digits. */
#define AHEAD_MAX 8
#define BEYOND_MAX 10

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

/* A code of a notation; numbers with between what they lie. */
static TimeItem item_of(int code)
{
    static const struct {
        char code;
        TimeItem item;
    } numbers[] = {
        {'Y', {'Y', 4, YEAR, 1, 9999, {0}}},      {'y', {'y', 2, SHORT_YEAR, 0, 99, {0}}},
        {'m', {'m', 2, MONTH, 1, 12, {0}}},       {'d', {'d', 2, DAY, 1, 31, {0}}},
        {'j', {'j', 3, DAY_OF_YEAR, 1, 366, {0}}}, {'H', {'H', 2, HOUR, 0, 23, {0}}},
        {'I', {'I', 2, HALF_HOUR, 1, 12, {0}}},   {'M', {'M', 2, MINUTE, 0, 59, {0}}},
        {'S', {'S', 2, SECOND, 0, 60, {0}}},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].code == code)
            return numbers[i].item;
    return (TimeItem){.code = (uint8_t)code};
}

void put_notation(Notation *notation, Text pattern, TimeItem *items)
{
    *notation = (Notation){.items = items, .ahead = 1, .beyond = BEYOND_MAX};
    while (pattern.size) {
        size_t size = item_size(pattern);
        TimeItem *item = &items[notation->count++];
        *item = item_of(*pattern.at == '%' ? pattern.at[1] : 0);
        if (item->code == 0) {
            item->text = (Text){pattern.at, size};
            if (size > notation->beyond)
                notation->beyond = size;
        } else if (item->code == 'u') {
            notation->ahead = AHEAD_MAX;
        } else if (strchr("fQ_", item->code) != NULL && notation->ahead < 2) {
            /* A part of a second is looked for in two bytes, as is an offset behind a space. */
            notation->ahead = 2;
        }
        pattern.at += size;
        pattern.size -= size;
    }
}
