/* Columns in as few bytes as their varying bits need; cbt/bits.py says how and why. */
#include "native.h"

#define RUNS_MAX 10 /* as in elf.cbt.bits */
#define CHUNK 256
#define EACH_BYTE (UINT64_MAX / 255)

static uint64_t ones(int count)
{
    return count >= 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
}

static int find_runs(uint64_t mask, Run *run)
{
    int runs = 0;
    while (mask) {
        int lowest = __builtin_ctzll(mask);
        uint64_t rest = ~(mask >> lowest);
        int width = rest ? __builtin_ctzll(rest) : 64;
        run[runs++] = (Run){lowest, width};
        mask &= ~(ones(width) << lowest);
    }
    while (runs > RUNS_MAX) {
        int nearest = 0, least = 64;
        for (int i = 0; i + 1 < runs; i++) {
            int gap = run[i + 1].lowest - run[i].lowest - run[i].width;
            if (gap < least)
                least = gap, nearest = i;
        }
        run[nearest].width = run[nearest + 1].lowest + run[nearest + 1].width - run[nearest].lowest;
        memmove(run + nearest + 1, run + nearest + 2, (size_t)(runs - nearest - 2) * sizeof *run);
        runs--;
    }
    return runs;
}

static Moves moves_once(uint64_t varying)
{
    Moves moves = {0};
    moves.runs = find_runs(varying, moves.run);
    uint64_t every = varying | varying >> 32;
    every |= every >> 16;
    every |= every >> 8;
    every &= 0xFF;
    moves.low = __builtin_ctzll(every);
    moves.width = 64 - __builtin_clzll(every) - moves.low;
    if (moves.runs > 4 && 8 * moves.width <= __builtin_popcountll(varying) + 8) {
        moves.bytewise = 1;
        moves.mask = (ones(moves.width) << moves.low) * EACH_BYTE;
        moves.bits = 8 * moves.width;
        return moves;
    }
    for (int i = 0; i < moves.runs; i++) {
        moves.mask |= ones(moves.run[i].width) << moves.run[i].lowest;
        moves.bits += moves.run[i].width;
    }
    return moves;
}

static int are_same(const Moves *left, const Moves *right)
{
    return left->mask == right->mask && left->bytewise == right->bytewise && left->runs == right->runs &&
           memcmp(left->run, right->run, (size_t)left->runs * sizeof *left->run) == 0;
}

/* The reader knows the mask only, so these are moves that come out again for their mask. */
static Moves moves_of(uint64_t varying)
{
    Moves moves = moves_once(varying);
    for (;;) {
        Moves known = moves_once(moves.mask);
        if (are_same(&known, &moves))
            return moves;
        moves = known;
    }
}

/* Neighbours of `size` bits each, of which the lower ones are in use, become one of twice the size. */
static uint64_t halves(int size, int width, int *shift)
{
    int used = size * width / 8;
    *shift = size - used;
    return ones(used) * (UINT64_MAX / ones(2 * size));
}

static void together(uint64_t *values, ptrdiff_t count, const Moves *moves)
{
    if (moves->bytewise) {
        for (ptrdiff_t i = 0; i < count; i++)
            values[i] = values[i] >> moves->low & moves->mask >> moves->low;
        for (int size = 8; size <= 32; size *= 2) {
            int shift;
            uint64_t low = halves(size, moves->width, &shift), high = low << size;
            for (ptrdiff_t i = 0; i < count; i++)
                values[i] = (values[i] & low) | (values[i] & high) >> shift;
        }
        return;
    }
    uint64_t moved[CHUNK] = {0};
    for (int r = 0, place = 0; r < moves->runs; place += moves->run[r++].width) {
        int shift = moves->run[r].lowest - place;
        uint64_t mask = ones(moves->run[r].width) << place;
        for (ptrdiff_t i = 0; i < count; i++)
            moved[i] |= values[i] >> shift & mask;
    }
    memcpy(values, moved, (size_t)count * sizeof *values);
}

static void apart(uint64_t *values, ptrdiff_t count, const Moves *moves)
{
    if (moves->bytewise) {
        for (int size = 32; size >= 8; size /= 2) {
            int shift;
            uint64_t low = halves(size, moves->width, &shift), high = low << size;
            for (ptrdiff_t i = 0; i < count; i++)
                values[i] = (values[i] & low) | (values[i] << shift & high);
        }
        for (ptrdiff_t i = 0; i < count; i++)
            values[i] <<= moves->low;
        return;
    }
    uint64_t moved[CHUNK] = {0};
    for (int r = 0, place = 0; r < moves->runs; place += moves->run[r++].width) {
        int shift = moves->run[r].lowest - place;
        uint64_t mask = ones(moves->run[r].width) << moves->run[r].lowest;
        for (ptrdiff_t i = 0; i < count; i++)
            moved[i] |= values[i] << shift & mask;
    }
    memcpy(values, moved, (size_t)count * sizeof *values);
}

static void fetch(const Column *column, ptrdiff_t at, ptrdiff_t count, uint64_t *out)
{
    if (column->items != NULL && column->item_bytes == 8)
        memcpy(out, (const uint64_t *)column->items + at, (size_t)count * sizeof *out);
    else
        for (ptrdiff_t i = 0; i < count; i++)
            out[i] = value_at(column, at + i);
}

/* The widths, in bytes, of the pieces that hold so many bits; returns their number. */
static int pieces_of(int bits, int *widths)
{
    int bytes = (bits + 7) / 8, pieces = 0;
    if (bytes == 8)
        widths[pieces++] = 8;
    for (int width = 4; width && bytes < 8; width /= 2)
        if (bytes & width)
            widths[pieces++] = width;
    return pieces;
}

/* `width` is a constant where this is inlined, so each width has loops of its own. */
static inline void write_items(uint8_t *out, const uint64_t *values, ptrdiff_t count, int width, int place)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        uint64_t value = values[i] >> place;
        memcpy(out + width * i, &value, (size_t)width);
    }
}

static inline void read_items(const uint8_t *data, uint64_t *values, ptrdiff_t count, int width, int place)
{
    for (ptrdiff_t i = 0; i < count; i++) {
        uint64_t value = 0;
        memcpy(&value, data + width * i, (size_t)width);
        values[i] |= value << place;
    }
}

static void write_piece(uint8_t *out, const uint64_t *values, ptrdiff_t count, int width, int place)
{
    switch (width) {
    case 8: write_items(out, values, count, 8, place); break;
    case 4: write_items(out, values, count, 4, place); break;
    case 2: write_items(out, values, count, 2, place); break;
    default: write_items(out, values, count, 1, place);
    }
}

static void read_piece(const uint8_t *data, uint64_t *values, ptrdiff_t count, int width, int place)
{
    switch (width) {
    case 8: read_items(data, values, count, 8, place); break;
    case 4: read_items(data, values, count, 4, place); break;
    case 2: read_items(data, values, count, 2, place); break;
    default: read_items(data, values, count, 1, place);
    }
}

/* The bits of text in this word of keys with so many bytes of it. */
void text_masks(const Column *sizes, ptrdiff_t at, ptrdiff_t count, uint64_t word, uint64_t *masks)
{
    fetch(sizes, at, count, masks);
    for (ptrdiff_t i = 0; i < count; i++) {
        uint64_t left = masks[i] > 8 * word ? masks[i] - 8 * word : 0;
        uint64_t unused = left < 8 ? 64 - 8 * left : 0;
        masks[i] = unused < 64 ? UINT64_MAX >> unused : 0;
    }
}

/* Rows whose text reaches the word, if only these are packed; -1: all are. */
static ptrdiff_t reaching(const Column *sizes, uint64_t word)
{
    if (sizes == NULL || (sizes->items == NULL && sizes->same > 8 * word))
        return -1;
    ptrdiff_t reached = 0;
    uint64_t chunk[CHUNK];
    for (ptrdiff_t at = 0; at < sizes->rows; at += CHUNK) {
        ptrdiff_t count = sizes->rows - at < CHUNK ? sizes->rows - at : CHUNK;
        fetch(sizes, at, count, chunk);
        for (ptrdiff_t i = 0; i < count; i++)
            reached += chunk[i] > 8 * word;
    }
    return packs_all(reached, sizes->rows) ? -1 : reached;
}

/* The values among the next rows that are packed, with their masks if it is text; moves `*row` on. */
static ptrdiff_t next_values(const Packing *packing, int picked, ptrdiff_t *row, uint64_t *values, uint64_t *masks)
{
    ptrdiff_t at = *row, rows = packing->values.rows - at;
    ptrdiff_t count = rows < CHUNK ? rows : CHUNK, kept = 0;
    *row = at + count;
    fetch(&packing->values, at, count, values);
    if (packing->sizes == NULL)
        return count;
    text_masks(packing->sizes, at, count, packing->word, masks);
    if (!picked)
        return count;
    for (ptrdiff_t i = 0; i < count; i++) {
        values[kept] = values[i];
        masks[kept] = masks[i];
        kept += masks[i] != 0;
    }
    return kept;
}

static void put_header(uint8_t *out, uint64_t base, uint64_t constant, uint64_t mask)
{
    uint64_t header[3] = {base, constant, mask};
    memcpy(out, header, sizeof header);
}

ptrdiff_t packed_bytes_max(ptrdiff_t rows)
{
    return PACKED_HEADER_BYTES + 8 * rows;
}

ptrdiff_t pack(const Packing *packing, uint8_t *out)
{
    uint64_t values[CHUNK], masks[CHUNK];
    uint64_t any = 0, all = UINT64_MAX, base = 0;
    int64_t low = INT64_MAX, high = INT64_MIN;
    ptrdiff_t total = packing->values.rows, row = 0, count;
    ptrdiff_t reached = reaching(packing->sizes, packing->word);
    int picked = reached >= 0;
    if (picked) {
        if (reached == 0)
            return 0;
        total = reached;
    }
    while (row < packing->values.rows) {
        count = next_values(packing, picked, &row, values, masks);
        for (ptrdiff_t i = 0; i < count; i++)
            any |= values[i];
        for (ptrdiff_t i = 0; packing->sizes == NULL && i < count; i++)
            all &= values[i];
        for (ptrdiff_t i = 0; packing->sizes != NULL && i < count; i++)
            all &= values[i] | ~masks[i];
        for (ptrdiff_t i = 0; packing->relative && i < count; i++) {
            low = (int64_t)values[i] < low ? (int64_t)values[i] : low;
            high = (int64_t)values[i] > high ? (int64_t)values[i] : high;
        }
    }
    uint64_t varying = any & ~all;
    if (packing->relative && varying) {
        uint64_t range = (uint64_t)high - (uint64_t)low;
        int bits = 64 - __builtin_clzll(range);
        if (bits < __builtin_popcountll(varying)) {
            base = (uint64_t)low;
            varying = ones(bits);
            any = 0;
        }
    }
    if (!varying) {
        put_header(out, base, any, 0);
        return PACKED_HEADER_BYTES;
    }
    Moves moves = moves_of(varying);
    put_header(out, base, any & ~moves.mask, moves.mask);
    int widths[3], pieces = pieces_of(moves.bits, widths);
    uint8_t *piece[3] = {out + PACKED_HEADER_BYTES, NULL, NULL};
    for (int p = 1; p < pieces; p++)
        piece[p] = piece[p - 1] + widths[p - 1] * total;
    row = 0;
    while (row < packing->values.rows) {
        count = next_values(packing, picked, &row, values, masks);
        for (ptrdiff_t i = 0; base && i < count; i++)
            values[i] -= base;
        together(values, count, &moves);
        for (int p = 0, place = 0; p < pieces; place += 8 * widths[p++]) {
            write_piece(piece[p], values, count, widths[p], place);
            piece[p] += widths[p] * count;
        }
    }
    return PACKED_HEADER_BYTES + (moves.bits + 7) / 8 * total;
}

ptrdiff_t open_bits(BitReader *reader, const uint8_t *data, ptrdiff_t bytes, ptrdiff_t count)
{
    uint64_t header[3];
    if (bytes < PACKED_HEADER_BYTES)
        return -1;
    memcpy(header, data, sizeof header);
    reader->base = header[0];
    reader->constant = header[1];
    reader->moves.mask = header[2];
    if (!header[2])
        return PACKED_HEADER_BYTES;
    reader->moves = moves_of(header[2]);
    ptrdiff_t each = (reader->moves.bits + 7) / 8;
    if ((bytes - PACKED_HEADER_BYTES) / each < count)
        return -1;
    reader->pieces = pieces_of(reader->moves.bits, reader->widths);
    reader->piece[0] = data + PACKED_HEADER_BYTES;
    for (int p = 1; p < reader->pieces; p++)
        reader->piece[p] = reader->piece[p - 1] + reader->widths[p - 1] * count;
    return PACKED_HEADER_BYTES + each * count;
}

void next_bits(BitReader *reader, ptrdiff_t count, uint64_t *out)
{
    for (; count > 0; count -= CHUNK, out += CHUNK) {
        ptrdiff_t few = count < CHUNK ? count : CHUNK;
        memset(out, 0, (size_t)few * sizeof *out);
        if (reader->moves.mask) {
            for (int p = 0, place = 0; p < reader->pieces; place += 8 * reader->widths[p++]) {
                read_piece(reader->piece[p], out, few, reader->widths[p], place);
                reader->piece[p] += reader->widths[p] * few;
            }
            apart(out, few, &reader->moves);
        }
        for (ptrdiff_t i = 0; i < few; i++)
            out[i] = (out[i] | reader->constant) + reader->base;
    }
}

ptrdiff_t unpack(const uint8_t *data, ptrdiff_t bytes, ptrdiff_t count, uint64_t *out)
{
    BitReader reader;
    ptrdiff_t read = open_bits(&reader, data, bytes, count);
    if (read >= 0)
        next_bits(&reader, count, out);
    return read;
}

ptrdiff_t unpack_text(const uint8_t *data, ptrdiff_t bytes, const Column *sizes, uint64_t word, uint64_t *out)
{
    ptrdiff_t rows = sizes->rows, reached = reaching(sizes, word), read = 0, from = reached < 0 ? rows : reached;
    uint64_t masks[CHUNK];
    if (reached != 0)
        read = unpack(data, bytes, from, out);
    if (read < 0)
        return read;
    /* From the end, since what is spread over more rows moves up or stays. */
    for (ptrdiff_t end = rows; end > 0; end -= CHUNK) {
        ptrdiff_t at = end > CHUNK ? end - CHUNK : 0;
        text_masks(sizes, at, end - at, word, masks);
        for (ptrdiff_t i = end - 1; i >= at; i--) {
            int packed = reached < 0 || masks[i - at];
            /* None is left if `sizes` lie where `out` does, so that they have changed since they were counted. */
            if (packed && from-- == 0)
                return -1;
            out[i] = masks[i - at] ? out[from] & masks[i - at] : 0;
        }
    }
    return read;
}
