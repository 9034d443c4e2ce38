/* Sixteen bytes at a time, by names that SSE2, NEON and plain C have in common. Every x86-64 has SSE2, every arm64 has
 * NEON. */
#ifndef LINES_VECTORS_H
#define LINES_VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_BYTES 16

#if defined(__SSE2__)

#include <emmintrin.h>

typedef __m128i Vector;
/* One bit of each byte that is hit, HIT_BITS apart, the first byte's the lowest. */
typedef uint32_t Hits;
#define HIT_BITS 1
#define EVERY_HIT 0xFFFF

static inline Vector load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)bytes);
}

static inline Vector every(uint8_t byte)
{
    return _mm_set1_epi8((char)byte);
}

static inline Vector equal(Vector left, Vector right)
{
    return _mm_cmpeq_epi8(left, right);
}

static inline Vector either(Vector left, Vector right)
{
    return _mm_or_si128(left, right);
}

static inline Vector at_most(Vector bytes, Vector limit)
{
    return _mm_cmpeq_epi8(_mm_min_epu8(bytes, limit), bytes);
}

static inline Vector minus(Vector left, Vector right)
{
    return _mm_sub_epi8(left, right);
}

/* Which bytes are no digits; compared as signed ones, of which digits are the least when this is added. */
static inline Vector no_digit(Vector bytes)
{
    return _mm_cmpgt_epi8(_mm_add_epi8(bytes, _mm_set1_epi8(128 - '0')), _mm_set1_epi8(9 - 128));
}

static inline Hits hits(Vector found)
{
    return (Hits)_mm_movemask_epi8(found);
}

#elif defined(__ARM_NEON)

#include <arm_neon.h>

typedef uint8x16_t Vector;
typedef uint64_t Hits;
#define HIT_BITS 4
#define EVERY_HIT 0x1111111111111111

static inline Vector load(const uint8_t *bytes)
{
    return vld1q_u8(bytes);
}

static inline Vector every(uint8_t byte)
{
    return vdupq_n_u8(byte);
}

static inline Vector equal(Vector left, Vector right)
{
    return vceqq_u8(left, right);
}

static inline Vector either(Vector left, Vector right)
{
    return vorrq_u8(left, right);
}

static inline Vector at_most(Vector bytes, Vector limit)
{
    return vcleq_u8(bytes, limit);
}

static inline Vector minus(Vector left, Vector right)
{
    return vsubq_u8(left, right);
}

static inline Vector no_digit(Vector bytes)
{
    return vcgtq_u8(vsubq_u8(bytes, vdupq_n_u8('0')), vdupq_n_u8(9));
}

static inline Hits hits(Vector found)
{
    uint8x8_t halves = vshrn_n_u16(vreinterpretq_u16_u8(found), 4);
    return vget_lane_u64(vreinterpret_u64_u8(halves), 0) & EVERY_HIT;
}

#else

typedef struct {
    uint8_t bytes[VECTOR_BYTES];
} Vector;
typedef uint32_t Hits;
#define HIT_BITS 1
#define EVERY_HIT 0xFFFF
#define EACH_BYTE(value)                                                                                               \
    Vector made;                                                                                                       \
    for (int i = 0; i < VECTOR_BYTES; i++)                                                                             \
        made.bytes[i] = (uint8_t)(value);                                                                              \
    return made

static inline Vector load(const uint8_t *bytes)
{
    Vector made;
    memcpy(made.bytes, bytes, VECTOR_BYTES);
    return made;
}

static inline Vector every(uint8_t byte)
{
    EACH_BYTE(byte);
}

static inline Vector equal(Vector left, Vector right)
{
    EACH_BYTE(left.bytes[i] == right.bytes[i] ? 0xFF : 0);
}

static inline Vector either(Vector left, Vector right)
{
    EACH_BYTE(left.bytes[i] | right.bytes[i]);
}

static inline Vector at_most(Vector bytes, Vector limit)
{
    EACH_BYTE(bytes.bytes[i] <= limit.bytes[i] ? 0xFF : 0);
}

static inline Vector minus(Vector left, Vector right)
{
    EACH_BYTE(left.bytes[i] - right.bytes[i]);
}

static inline Vector no_digit(Vector bytes)
{
    EACH_BYTE(bytes.bytes[i] < '0' || bytes.bytes[i] > '9' ? 0xFF : 0);
}

static inline Hits hits(Vector found)
{
    Hits made = 0;
    for (int i = 0; i < VECTOR_BYTES; i++)
        made |= (Hits)(found.bytes[i] & 1) << i;
    return made;
}

#endif

/* Where the first hit is, of at least one. */
static inline size_t first_hit(Hits found)
{
    return (size_t)__builtin_ctzll(found) / HIT_BITS;
}

static inline Hits without_first(Hits found)
{
    return found & (found - 1);
}

/* Hits of all of the first bytes, fewer than sixteen. */
static inline Hits hits_before(size_t count)
{
    return EVERY_HIT & (((Hits)1 << count * HIT_BITS) - 1);
}

/* Where among 64 bytes the first hit is; 64 if there is none. */
static inline size_t first_of_four(Vector a, Vector b, Vector c, Vector d)
{
#if HIT_BITS == 1
    uint64_t found = (uint64_t)hits(a) | (uint64_t)hits(b) << 16 | (uint64_t)hits(c) << 32 | (uint64_t)hits(d) << 48;
    return found ? (size_t)__builtin_ctzll(found) : 64;
#else
    Vector four[4] = {a, b, c, d};
    if (!hits(either(either(a, b), either(c, d))))
        return 64;
    for (size_t i = 0;; i++)
        if (hits(four[i]))
            return VECTOR_BYTES * i + first_hit(hits(four[i]));
#endif
}

/* The first of a byte; the end if there is none. There is slack behind it. */
static inline const uint8_t *find_byte(uint8_t byte, const uint8_t *at, const uint8_t *end)
{
    Vector wanted = every(byte);
    for (; at < end; at += VECTOR_BYTES) {
        Hits found = hits(equal(load(at), wanted));
        if (found) {
            at += first_hit(found);
            break;
        }
    }
    return at < end ? at : end;
}

#endif
