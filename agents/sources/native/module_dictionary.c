/* The Python face of dictionaries. */
#include "arguments.h"
#include "dictionary.h"

/* 0, or -1 with an exception. */
static int open_dictionary(Dictionary *dictionary, Buffers *buffers, PyObject *slots, PyObject *texts,
                           PyObject *offsets)
{
    Py_ssize_t rooms;
    if ((dictionary->slots = change_array(buffers, slots, 8, &dictionary->slot_count)) == NULL ||
        (dictionary->texts = change_array(buffers, texts, 1, &dictionary->room)) == NULL ||
        (dictionary->offsets = change_array(buffers, offsets, 8, &rooms)) == NULL)
        return -1;
    dictionary->most = rooms - 1;
    Py_ssize_t count = dictionary->slot_count;
    if (count >= 1 && count <= UINT32_MAX && (count & (count - 1)) == 0 && dictionary->known >= 0 &&
        dictionary->known <= dictionary->most)
        return 0;
    refused("a dictionary has a power of two of slots, and room for what it knows");
    return -1;
}

PyObject *py_look_up(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *slots, *texts, *offsets, *codes_of, *valid_of;
    Dictionary dictionary;
    Py_ssize_t row;
    if (!PyArg_ParseTuple(args, "SOnOOOnOO:look_up", &bytes, &places, &row, &slots, &texts, &offsets,
                          &dictionary.known, &codes_of, &valid_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Py_ssize_t reached = BAD, nulls = 0;
    uint32_t *codes;
    uint8_t *valid;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        open_dictionary(&dictionary, &buffers, slots, texts, offsets) == 0 &&
        (codes = write_array(&buffers, codes_of, 4, 1, spans.rows)) != NULL &&
        (valid = write_bitmap(&buffers, valid_of, spans.rows)) != NULL) {
        if (row < 0 || row > spans.rows) {
            refused("there is no such row");
        } else {
            Py_BEGIN_ALLOW_THREADS
            reached = look_up(&dictionary, &block, &spans, row, codes, valid, &nulls);
            Py_END_ALLOW_THREADS
        }
    }
    let_go(&buffers);
    return reached < 0 ? count_of(BAD) : Py_BuildValue("nnn", reached, dictionary.known, nulls);
}

PyObject *py_fill_slots(PyObject *self, PyObject *args)
{
    PyObject *slots, *texts, *offsets;
    Dictionary dictionary;
    if (!PyArg_ParseTuple(args, "OOOn:fill_slots", &slots, &texts, &offsets, &dictionary.known))
        return NULL;
    Buffers buffers;
    Py_ssize_t filled = BAD;
    buffers.count = 0;
    if (open_dictionary(&dictionary, &buffers, slots, texts, offsets) == 0) {
        Py_BEGIN_ALLOW_THREADS
        filled = fill_slots(&dictionary);
        Py_END_ALLOW_THREADS
    }
    let_go(&buffers);
    return count_of(filled);
}
