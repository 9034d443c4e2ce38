/* Lists: items joined by ", " (a retry) or " : " (an internal redirect); of addresses by a comma alone, too. */
#include "scan.h"

/* Where bytes end that are no spaces, commas, quotes or control bytes, nor what closes the list. */
static inline const uint8_t *item_end(const uint8_t *at, const uint8_t *end, uint8_t closing)
{
    Vector space = every(' '), comma = every(','), quote = every('"'), control = every(31), close = every(closing);
    for (; at < end; at += VECTOR_BYTES) {
        Vector text = load(at);
        Vector ends = either(either(equal(text, space), equal(text, comma)), equal(text, quote));
        Hits found = hits(either(ends, either(at_most(text, control), equal(text, close))));
        if (found) {
            at += first_hit(found);
            break;
        }
    }
    return at < end ? at : end;
}

/* Where a bracketed address ends that an item in brackets begins with; the item's beginning if there is none. */
static const uint8_t *bracket_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *close = at < end && *at == '[' ? find_byte(']', at, end) : end;
    for (const uint8_t *byte = at; byte < close; byte++)
        if (*byte < 32)
            return at;
    return close < end ? close + 1 : at;
}

static int is_item(int kind, const uint8_t *at, const uint8_t *end)
{
    ptrdiff_t size = end - at;
    if (size == 1 && *at == '-')
        return 1;
    switch (kind) {
    case KIND_ADDRESSES: return is_peer(at, end) || is_hidden(at, end);
    case KIND_UPSTREAMS: return is_upstream(at, end);
    case KIND_STATUSES: return size == 3 ? all_of(DIGIT, at, end) : size == 1 && *at == '0';
    default: return is_number(at, end);
    }
}

/* How many bytes join an item to the next; 0: it is the last. */
static ptrdiff_t joint(int kind, const uint8_t *at, const uint8_t *end)
{
    if (begins(at, end, ", "))
        return 2;
    if (kind == KIND_ADDRESSES)
        return begins(at, end, ",") ? 1 : 0;
    return begins(at, end, " : ") ? 3 : 0;
}

/* What comes behind a list, and is in none: a bracket, or the like; a space if nothing does. */
static uint8_t closing_of(const Step *step)
{
    static const uint8_t closings[] = "]})|;";
    for (const uint8_t *byte = closings; *byte; byte++)
        if (is_stop(step, *byte))
            return *byte;
    return ' ';
}

const uint8_t *read_list(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *item = at;
    uint8_t closing = closing_of(step);
    for (;;) {
        const uint8_t *begin = closing == ']' ? bracket_end(item, line->end) : item;
        const uint8_t *end = item_end(begin, line->end, closing);
        if (!is_item(step->kind, item, end))
            return misfit(line, item);
        ptrdiff_t size = joint(step->kind, end, line->end);
        if (size == 0) {
            put_text(value, at, end);
            return end;
        }
        item = end + size;
    }
}
