/* Programs for objects decoded; elf.agents.sources.objects.program.encoded has their bytes. Whatever these are, what
 * comes out can be run, or is refused. */
#include <stdlib.h>

#include "input.h"
#include "objects.h"

#define HEADER_BYTES 12
#define OUTPUT_BYTES 4
#define NODE_BYTES 10
#define MEMBER_BYTES 4
#define ITEM_BYTES 6

/* A node that comes behind another one, so that none is in itself; NULL: there is no such one. */
static Node *node_behind(const ObjectProgram *program, size_t number, size_t at)
{
    return at > number && at < program->node_count ? &program->nodes[at] : NULL;
}

static int put_members(ObjectProgram *program, size_t number, Input *input, size_t count, Member *members)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = take_bytes(input, MEMBER_BYTES);
        if (bytes == NULL)
            return BAD;
        members[i].node = node_behind(program, number, u16(bytes));
        members[i].size = u16(bytes + 2);
        members[i].name = take_bytes(input, members[i].size);
        if (members[i].node == NULL || members[i].name == NULL)
            return BAD;
    }
    return DONE;
}

static int put_items(ObjectProgram *program, size_t number, Input *input, size_t count, Item *items)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = take_bytes(input, ITEM_BYTES);
        if (bytes == NULL)
            return BAD;
        items[i].index = u16(bytes) | (uint32_t)u16(bytes + 2) << 16;
        items[i].node = node_behind(program, number, u16(bytes + 4));
        if (items[i].node == NULL)
            return BAD;
    }
    return DONE;
}

static int put_nodes(ObjectProgram *program, Input *input, size_t member_count, size_t item_count)
{
    size_t members = 0, items = 0;
    for (size_t i = 0; i < program->node_count; i++) {
        Node *node = &program->nodes[i];
        const uint8_t *bytes = take_bytes(input, NODE_BYTES);
        if (bytes == NULL)
            return BAD;
        node->slot = (int16_t)u16(bytes);
        node->first = u16(bytes + 2);
        node->end = u16(bytes + 4);
        node->member_count = u16(bytes + 6);
        node->item_count = u16(bytes + 8);
        node->members = program->members + members;
        node->items = program->items + items;
        members += node->member_count;
        items += node->item_count;
        if (node->slot < -1 || node->slot >= (int)program->slot_count || node->first > node->end ||
            node->end > (int)program->slot_count || members > member_count || items > item_count ||
            put_members(program, i, input, node->member_count, node->members) != DONE ||
            put_items(program, i, input, node->item_count, node->items) != DONE)
            return BAD;
    }
    return DONE;
}

static int put_outputs(ObjectProgram *program, Input *input)
{
    for (size_t i = 0; i < program->output_count; i++) {
        const uint8_t *bytes = take_bytes(input, OUTPUT_BYTES);
        if (bytes == NULL)
            return BAD;
        program->outputs[i] = (Output){(int16_t)u16(bytes), (int16_t)u16(bytes + 2)};
        if (program->outputs[i].first < 0 || program->outputs[i].first >= (int)program->slot_count ||
            program->outputs[i].second < -1 || program->outputs[i].second >= (int)program->slot_count)
            return BAD;
    }
    return DONE;
}

/* Room for the names that nodes remember: of the root, and of nodes that have members. */
static int put_seen(ObjectProgram *program)
{
    size_t count = 0;
    for (size_t i = 0; i < program->node_count; i++)
        count += i == 0 || program->nodes[i].member_count;
    program->seen = calloc(count * SEEN_MAX, sizeof *program->seen);
    if (program->seen == NULL)
        return NO_MEMORY;
    for (size_t i = 0; i < count * SEEN_MAX; i++)
        program->seen[i].size = SEEN_BYTES + 1;
    Seen *seen = program->seen;
    for (size_t i = 0; i < program->node_count; i++) {
        program->nodes[i].seen = seen;
        seen += i == 0 || program->nodes[i].member_count ? SEEN_MAX : 0;
    }
    return DONE;
}

int open_object_program(ObjectProgram *program, const uint8_t *bytes, size_t size)
{
    Input input = {bytes, bytes + size};
    const uint8_t *header = take_bytes(&input, HEADER_BYTES);
    *program = (ObjectProgram){0};
    if (header == NULL || u16(header) == 0)
        return BAD;
    program->node_count = u16(header);
    program->slot_count = u16(header + 2);
    program->output_count = u16(header + 4);
    size_t members = u16(header + 6), items = u16(header + 8);
    program->skips_blanks = u16(header + 10) != 0;
    program->nodes = calloc(program->node_count, sizeof *program->nodes);
    program->slots = calloc(program->slot_count + 1, sizeof *program->slots);
    program->outputs = calloc(program->output_count + 1, sizeof *program->outputs);
    program->members = calloc(members + 1, sizeof *program->members);
    program->items = calloc(items + 1, sizeof *program->items);
    if (program->nodes == NULL || program->slots == NULL || program->outputs == NULL || program->members == NULL ||
        program->items == NULL)
        return NO_MEMORY;
    if (put_outputs(program, &input) != DONE || put_nodes(program, &input, members, items) != DONE ||
        input.at != input.end)
        return BAD;
    return put_seen(program);
}

void close_object_program(ObjectProgram *program)
{
    free(program->nodes);
    free(program->slots);
    free(program->outputs);
    free(program->members);
    free(program->items);
    free(program->seen);
}
