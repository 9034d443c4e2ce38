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

/* Whether nginx may have a server of this name: of all hosts of a domain, or by a regular expression. */
static int is_server_name(const uint8_t *at, const uint8_t *end)
{
    if (*at == '~')
        return end - at > 1;
    const uint8_t *name = at + (*at == '*');
    name += name < end && *name == '.';
    return (name > at && is_name(name, end)) || (end - at > 2 && end[-2] == '.' && end[-1] == '*' && is_name(at, end - 2));
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
    case KIND_WORD: return *at != '"';
    case KIND_IP: return is_ip(at, end) || is_socket(at, end);
    case KIND_ADDR: return is_ip(at, end) || is_socket(at, end) || is_full_name(at, end) || is_no_host(at, end);
    case KIND_HOST: return is_name(at, end) || is_ip(at, end) || same(at, end, "_") || is_host_port(at, end) ||
                            is_server_name(at, end);
    case KIND_IDENT: return is_ident(at, end);
    case KIND_METHOD: return all_of(TOKEN, at, end);
    case KIND_PROTOCOL: return is_protocol(at, end);
    case KIND_URI: return is_uri(at, end);
    case KIND_STATUS: return is_status(at, end);
    case KIND_INT: return is_integer(at, end);
    case KIND_BYTES: return is_integer(at, end) || (end - at == 1 && *at == '-');
    case KIND_NUMBER: return is_number(at, end);
    case KIND_DURATION: return is_duration(at, end);
    case KIND_HEX: return all_of(HEX, at, end);
    case KIND_STREAM: return same(at, end, "stdout") || same(at, end, "stderr");
    case KIND_PART: return end - at == 1 && (*at == 'P' || *at == 'F');
    default: return 1;
    }
}

static inline int may_be_empty(int kind)
{
    return kind == KIND_WORD || kind == KIND_QUOTED || kind == KIND_URI || kind == KIND_HOST || kind == KIND_REQUEST ||
           kind == KIND_USER || kind == KIND_TEXT;
}

static inline int has_port(int kind)
{
    return kind == KIND_IP || kind == KIND_ADDR || kind == KIND_HOST;
}

int is_of_kind(int kind, const uint8_t *at, const uint8_t *end)
{
    return is_of(kind, at, end);
}

int has_brackets(int kind)
{
    return has_port(kind);
}

/* Inlined with a kind that is known, it has no more than that kind needs. */
static inline __attribute__((always_inline)) const uint8_t *read_kind(const Step *step, Line *line, const uint8_t *at,
                                                                      Value *value, int kind, int quoted)
{
    const uint8_t *end =
        has_port(kind) && step->before_port ? peer_end(line, at) : run_end(step, at, line->end, quoted);
    ptrdiff_t size = end - at;
    value->begin = NULL;
    if (size == 1 && *at == '-' && kind != KIND_BYTES)
        return end;
    if (kind == KIND_STATUS && same(at, end, "-1"))
        return end;
    if (size == 0) {
        if (!may_be_empty(kind) || (!quoted && (step->after.size == 0 || *step->after.at == ' ')))
            return misfit(line, at);
        if (kind == KIND_REQUEST)
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

READER(read_word, KIND_WORD, 0)
READER(read_quoted, KIND_QUOTED, 1)
READER(read_request, KIND_REQUEST, 1)
READER(read_ip, KIND_IP, 0)
READER(read_addr, KIND_ADDR, 0)
READER(read_status, KIND_STATUS, 0)
READER(read_int, KIND_INT, 0)
READER(read_bytes, KIND_BYTES, 0)
READER(read_number, KIND_NUMBER, 0)
READER(read_any, step->kind, step->quoted)

static const uint8_t *read_ident(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = read_kind(step, line, at, value, KIND_IDENT, step->quoted);
    line->has_ident = value->begin != NULL;
    return end;
}

Reader run_reader(int kind, int quoted)
{
    switch (kind) {
    case KIND_QUOTED: return quoted ? read_quoted : read_any;
    case KIND_REQUEST: return quoted ? read_request : read_any;
    case KIND_WORD: return quoted ? read_any : read_word;
    case KIND_IP: return quoted ? read_any : read_ip;
    case KIND_ADDR: return quoted ? read_any : read_addr;
    case KIND_IDENT: return read_ident;
    case KIND_STATUS: return quoted ? read_any : read_status;
    case KIND_INT: return quoted ? read_any : read_int;
    case KIND_BYTES: return quoted ? read_any : read_bytes;
    case KIND_NUMBER: return quoted ? read_any : read_number;
    default: return read_any;
    }
}
