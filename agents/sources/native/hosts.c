/* Addresses and host names; elf.agents.sources.layouts.hosts says what is one. */
#include "hosts.h"

/* Of eight groups and what is between them. */
#define IPV6_BYTES_MAX 39
#define GROUPS 8

int is_ipv4(const uint8_t *at, const uint8_t *end)
{
    if (end - at < IPV4_BYTES_MIN || end - at > IPV4_BYTES_MAX)
        return 0;
    Vector text = load(at);
    Hits points = hits(equal(text, every('.'))), all = hits_before((size_t)(end - at));
    return ((points | digits_in(text)) & all) == all && are_octets(at, (size_t)(end - at), points);
}

/* Whether groups of hexadecimal digits are an address, with one run of zeros left out or none. */
static int are_groups(const uint8_t *at, const uint8_t *end)
{
    int groups = 0, left_out = 0;
    if (end - at >= 2 && at[0] == ':' && at[1] == ':') {
        left_out = 1;
        at += 2;
        if (at == end)
            return 1;
    }
    for (;;) {
        const uint8_t *group = at;
        at = class_end(HEX, at, end);
        if (at == group || at - group > 4)
            return 0;
        groups++;
        if (at == end)
            return left_out ? groups < GROUPS : groups == GROUPS;
        if (*at++ != ':' || at == end)
            return 0;
        if (*at == ':') {
            if (left_out)
                return 0;
            left_out = 1;
            if (++at == end)
                return groups < GROUPS;
        }
    }
}

static const uint8_t *last(uint8_t byte, const uint8_t *at, const uint8_t *end)
{
    while (end > at)
        if (*--end == byte)
            return end;
    return NULL;
}

int is_ipv6(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *zone = memchr(at, '%', (size_t)(end - at));
    if (zone != NULL) {
        if (zone + 1 == end)
            return 0;
        end = zone;
    }
    if (memchr(at, '.', (size_t)(end - at)) == NULL)
        return are_groups(at, end);
    /* An IPv4 address at the end stands for two groups. */
    const uint8_t *colon = last(':', at, end);
    if (colon == NULL || colon == at || colon - at > IPV6_BYTES_MAX || !is_ipv4(colon + 1, end))
        return 0;
    uint8_t text[IPV6_BYTES_MAX + 4];
    size_t size = (size_t)(colon - at);
    memcpy(text, at, size);
    memcpy(text + size, ":0:0", 4);
    return are_groups(text, text + size + 4);
}

int is_ip(const uint8_t *at, const uint8_t *end)
{
    if (end - at >= 2 && *at == '[' && end[-1] == ']')
        return is_ipv6(at + 1, end - 1);
    return is_ipv4(at, end) || is_ipv6(at, end);
}

int is_name(const uint8_t *at, const uint8_t *end)
{
    if (at == end || !is(NAME, *at) || !(is(NAME, end[-1]) || end[-1] == '.'))
        return 0;
    uint16_t every_one = UINT16_MAX, any = 0;
    for (; at < end; at++) {
        every_one &= classes[*at];
        any |= classes[*at];
    }
    return every_one & INNER && any & LETTER;
}

int is_full_name(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *point = last('.', at, end);
    if (point == NULL)
        return same(at, end, "localhost");
    return is_name(at, end) && (point + 1 == end || !all_of(DIGIT, point + 1, end));
}

int is_port(const uint8_t *at, const uint8_t *end)
{
    return end - at >= 1 && end - at <= 5 && all_of(DIGIT, at, end);
}

/* The colon before a port at the end; NULL if there is none. */
static const uint8_t *before_port(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *port = end;
    while (port > at && is(DIGIT, port[-1]))
        port--;
    return port > at && port[-1] == ':' && is_port(port, end) ? port - 1 : NULL;
}

int is_ip_port(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *colon = before_port(at, end);
    return colon != NULL && is_ip(at, colon);
}

int is_authority(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *colon = before_port(at, end);
    return colon != NULL && (is_ip(at, colon) || is_name(at, colon));
}

int is_peer(const uint8_t *at, const uint8_t *end)
{
    return is_authority(at, end) || is_ip(at, end) || begins(at, end, "unix:") || same(at, end, "unknown") ||
           same(at, end, "localhost");
}

int is_upstream(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *scheme = class_end(LETTER, at, end);
    if (scheme > at && begins(scheme, end, "://"))
        at = scheme + 3;
    return is_peer(at, end) || is_name(at, end);
}

int is_no_host(const uint8_t *at, const uint8_t *end)
{
    return at < end && all_of(FORGED, at, end) && !all_of(LETTER, at, end);
}

int is_hidden(const uint8_t *at, const uint8_t *end)
{
    return end - at > 1 && *at == '_' && all_of(INNER, at, end);
}

int is_socket(const uint8_t *at, const uint8_t *end)
{
    return same(at, end, "unix:");
}
