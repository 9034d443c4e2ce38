/* Packed blocks, some rows at a time: what is unpacked of one stays in the processor's cache. */
#include "blocks.h"

typedef struct {
    uint32_t rows, width;
} Header; /* elf.cbt.blocks._HEADER */

static uint64_t *column_of(BlockReader *reader, ptrdiff_t number)
{
    return reader->columns + number * READ_ROWS;
}

/* The bytes of text of each row: lengths are one more, 0 for null. */
static void add_lengths(uint64_t *sizes, const uint64_t *lengths, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++)
        sizes[i] += lengths[i] - (lengths[i] > 0);
}

/* Count, for each word of text, the rows that reach it. */
static void count_reaching(BlockReader *reader)
{
    const Shape *shape = reader->shape;
    BitReader bits[SHAPE_COLUMNS_MAX];
    ptrdiff_t lengths = shape->text_at - shape->lengths_at, texts = shape->width - shape->text_at;
    uint64_t sizes[READ_ROWS], length[READ_ROWS];
    memcpy(bits, reader->bits + shape->lengths_at, (size_t)lengths * sizeof *bits);
    memset(reader->reached, 0, sizeof reader->reached);
    for (ptrdiff_t at = 0; at < reader->rows; at += READ_ROWS) {
        ptrdiff_t count = reader->rows - at < READ_ROWS ? reader->rows - at : READ_ROWS;
        memset(sizes, 0, sizeof sizes);
        for (ptrdiff_t l = 0; l < lengths; l++) {
            next_bits(&bits[l], count, length);
            add_lengths(sizes, length, count);
        }
        for (ptrdiff_t word = 0; word < texts; word++)
            for (ptrdiff_t i = 0; i < count; i++)
                reader->reached[word] += sizes[i] > 8 * (uint64_t)word;
    }
    for (ptrdiff_t word = 0; word < texts; word++)
        if (packs_all(reader->reached[word], reader->rows))
            reader->reached[word] = -1;
}

int open_block(BlockReader *reader, const uint8_t *data, ptrdiff_t bytes)
{
    const Shape *shape = reader->shape;
    Header header;
    if (bytes < (ptrdiff_t)sizeof header)
        return -1;
    memcpy(&header, data, sizeof header);
    /* Rows of constant columns take no bytes, so nothing else bounds them. */
    if ((ptrdiff_t)header.width != shape->width || header.rows > NUMBER_MASK)
        return -1;
    reader->rows = reader->left = header.rows;
    reader->count = reader->at = 0;
    ptrdiff_t at = sizeof header;
    for (ptrdiff_t c = 0; c < shape->width + shape->states; c++) {
        ptrdiff_t count = reader->rows;
        if (c == shape->text_at && shape->width > shape->text_at)
            count_reaching(reader);
        if (c >= shape->text_at && c < shape->width && reader->reached[c - shape->text_at] >= 0)
            count = reader->reached[c - shape->text_at];
        if (count == 0)
            continue;
        ptrdiff_t read = open_bits(&reader->bits[c], data + at, bytes - at, count);
        if (read < 0)
            return -1;
        at += read;
    }
    return 0;
}

/* Decode one word of text; what does not belong to a row's text is zero. */
static void read_text(BlockReader *reader, ptrdiff_t word, const Column *sizes)
{
    uint64_t masks[READ_ROWS], *out = column_of(reader, reader->shape->text_at + word);
    BitReader *bits = &reader->bits[reader->shape->text_at + word];
    ptrdiff_t count = sizes->rows, reached = 0;
    text_masks(sizes, 0, count, (uint64_t)word, masks);
    if (reader->reached[word] < 0) {
        next_bits(bits, count, out);
        for (ptrdiff_t i = 0; i < count; i++)
            out[i] &= masks[i];
        return;
    }
    for (ptrdiff_t i = 0; i < count; i++)
        reached += masks[i] != 0;
    next_bits(bits, reached, out);
    for (ptrdiff_t i = count - 1; i >= 0; i--)
        out[i] = masks[i] ? out[--reached] & masks[i] : 0;
}

ptrdiff_t read_rows(BlockReader *reader)
{
    const Shape *shape = reader->shape;
    ptrdiff_t count = reader->left < READ_ROWS ? reader->left : READ_ROWS;
    uint64_t sizes[READ_ROWS] = {0};
    Column lengths = {sizes, 0, 8, count}, words[SHAPE_COLUMNS_MAX], interval;
    reader->left -= count;
    reader->count = count;
    reader->at = 0;
    for (ptrdiff_t c = 0; c < shape->text_at; c++) {
        next_bits(&reader->bits[c], count, column_of(reader, c));
        if (c >= shape->lengths_at)
            add_lengths(sizes, column_of(reader, c), count);
    }
    for (ptrdiff_t c = shape->text_at; c < shape->width; c++)
        read_text(reader, c - shape->text_at, &lengths);
    for (ptrdiff_t c = shape->width; c < shape->width + shape->states; c++)
        next_bits(&reader->bits[c], count, column_of(reader, c));
    for (ptrdiff_t c = 1; c < shape->width; c++)
        words[c - 1] = (Column){column_of(reader, c), 0, 8, count};
    hash_words(words, shape->width - 1, count, reader->order);
    /* Places in the tree's order, as elf.cbt.words makes them of hashes and intervals. */
    interval = (Column){column_of(reader, 0), 0, 8, count};
    for (ptrdiff_t i = 0; i < count; i++)
        reader->order[i] = (reader->order[i] ^ mix64(value_at(&interval, i))) & ~NUMBER_MASK;
    return count;
}
