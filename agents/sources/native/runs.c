/* Values that end at what may follow them: words, texts between quotes, addresses, numbers. */
#include "scan.h"

/* An address or a name ends before the last colon of its bytes, behind which there is a port. */
static const uint8_t *peer_end(const Line *line, const uint8_t *at)
{
    if (at < line->end && *at == '[') {
        const uint8_t *close = find_byte(']', at, line->end);
        return close < line->end ? close + 1 : at;
    }
    const uint8_t *end = class_end(PEER, at, line->end), *colon = end;
    while (colon > at && colon[-1] != ':')
        colon--;
    return colon > at ? colon - 1 : end;
}

static int is_ident(const uint8_t *at, const uint8_t *end)
{
    return is(LETTER, *at) && all_of(IDENT, at, end) && !same(at, end, "localhost");
}

/* Letters, a slash, and a digit, or two with a point between. */
static int is_protocol(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *slash = class_end(UPPER, at, end);
    ptrdiff_t rest = end - slash;
    return slash > at && (rest == 2 || (rest == 4 && slash[2] == '.' && is(DIGIT, slash[3]))) && *slash == '/' &&
           is(DIGIT, slash[1]);
}

static int is_status(const uint8_t *at, const uint8_t *end)
{
    return end - at == 3 ? is(DIGIT, at[0]) & is(DIGIT, at[1]) & is(DIGIT, at[2]) : end - at == 1 && *at == '0';
}

static int is_host_port(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *colon = end;
    while (colon > at && colon[-1] != ':')
        colon--;
    if (colon == at || !is_port(colon, end))
        return 0;
    /* Without brackets, an IPv6 address and a port cannot be told apart. */
    return is_name(at, colon - 1) || (is_ip(at, colon - 1) && !is_ipv6(at, colon - 1));
}

static int is_uri(const uint8_t *at, const uint8_t *end)
{
    if (*at == '/' || (*at == '*' && end - at == 1))
        return 1;
    const uint8_t *colon = is(LETTER, *at) ? class_end(SCHEME, at, end) : at;
    return (colon > at && begins(colon, end, "://")) || is_peer(at, end);
}

/* Whether a value that is not nothing is of its kind. */
static inline int is_of(int kind, const uint8_t *at, const uint8_t *end)
{
    switch (kind) {
    case WORDS: return *at != '"';
    case IP: return is_ip(at, end) || is_socket(at, end);
    case ADDR: return is_ip(at, end) || is_socket(at, end) || is_full_name(at, end) || is_no_host(at, end);
    case HOST: return is_name(at, end) || is_ip(at, end) || same(at, end, "_") || is_host_port(at, end);
    case IDENTS: return is_ident(at, end);
    case METHOD: return all_of(TOKEN, at, end);
    case PROTOCOL: return is_protocol(at, end);
    case URI: return is_uri(at, end);
    case STATUS: return is_status(at, end);
    case INT: return is_integer(at, end);
    case BYTES: return is_integer(at, end) || (end - at == 1 && *at == '-');
    case NUMBER: return is_number(at, end);
    case DURATION: return is_duration(at, end);
    case HEXADECIMAL: return all_of(HEX, at, end);
    case STREAM: return same(at, end, "stdout") || same(at, end, "stderr");
    case PART_OF_LINE: return end - at == 1 && (*at == 'P' || *at == 'F');
    default: return 1;
    }
}

static inline int may_be_empty(int kind)
{
    return kind == WORDS || kind == QUOTED || kind == URI || kind == HOST || kind == REQUEST || kind == USER;
}

static inline int has_port(int kind)
{
    return kind == IP || kind == ADDR || kind == HOST;
}

/* Inlined with a kind that is known, it has no more than that kind needs. */
static inline __attribute__((always_inline)) const uint8_t *read_kind(const Step *step, Line *line, const uint8_t *at,
                                                                      Value *value, int kind, int quoted)
{
    const uint8_t *end =
        has_port(kind) && step->before_port ? peer_end(line, at) : run_end(step, at, line->end, quoted);
    ptrdiff_t size = end - at;
    value->begin = NULL;
    if ((size == 1 && *at == '-' && kind != BYTES) || (kind == STATUS && size == 2 && at[0] == '-' && at[1] == '1'))
        return end;
    if (size == 0) {
        if (!may_be_empty(kind) || (!quoted && (step->after.size == 0 || *step->after.at == ' ')))
            return misfit(line, at);
        if (kind == REQUEST)
            return end;
    } else if (!is_of(kind, at, end)) {
        return misfit(line, at);
    } else if (has_port(kind) && *at == '[' && end[-1] == ']') {
        value->begin = at + 1;
        value->end = end - 1;
        return end;
    }
    value->begin = at;
    value->end = end;
    return end;
}

#define READER(name, kind, quoted)                                                                                     \
    static const uint8_t *name(Step *step, Line *line, const uint8_t *at, Value *value)                                \
    {                                                                                                                  \
        return read_kind(step, line, at, value, kind, quoted);                                                         \
    }

READER(read_word, WORDS, 0)
READER(read_quoted, QUOTED, 1)
READER(read_request, REQUEST, 1)
READER(read_ip, IP, 0)
READER(read_addr, ADDR, 0)
READER(read_status, STATUS, 0)
READER(read_int, INT, 0)
READER(read_bytes, BYTES, 0)
READER(read_number, NUMBER, 0)
READER(read_any, step->kind, step->quoted)

static const uint8_t *read_ident(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = read_kind(step, line, at, value, IDENTS, step->quoted);
    line->has_ident = value->begin != NULL;
    return end;
}

Reader run_reader(int kind, int quoted)
{
    switch (kind) {
    case QUOTED: return quoted ? read_quoted : read_any;
    case REQUEST: return quoted ? read_request : read_any;
    case WORDS: return quoted ? read_any : read_word;
    case IP: return quoted ? read_any : read_ip;
    case ADDR: return quoted ? read_any : read_addr;
    case IDENTS: return read_ident;
    case STATUS: return quoted ? read_any : read_status;
    case INT: return quoted ? read_any : read_int;
    case BYTES: return quoted ? read_any : read_bytes;
    case NUMBER: return quoted ? read_any : read_number;
    default: return read_any;
    }
}
