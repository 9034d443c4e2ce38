/* The Python face of what reads objects, and of what their values are worth. */
#include <math.h>
#include <stdlib.h>

#include "arguments.h"
#include "objects.h"

static PyObject *count_of(Py_ssize_t count)
{
    if (count >= 0)
        return PyLong_FromSsize_t(count);
    if (count == NO_MEMORY)
        return PyErr_NoMemory();
    return PyErr_Occurred() ? NULL : refused("a value lies outside of its block, or is none");
}

/* The arrays of the outputs' places; how many there are, or -1 with an exception. */
static Py_ssize_t lock_places(Buffers *buffers, PyObject *sequence, Py_ssize_t rows, int32_t **spans)
{
    Py_ssize_t count = PySequence_Size(sequence);
    if (count > BUFFERS_MAX) {
        PyErr_Format(PyExc_ValueError, "more than %d outputs", BUFFERS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        spans[i] = item == NULL ? NULL : write_array(buffers, item, 4, 2, rows);
        Py_XDECREF(item);
        if (spans[i] == NULL)
            return -1;
    }
    return count;
}

/* A program for so many outputs; 0, or -1 with an exception. In any case there is something to close. */
static int open_program_of(ObjectProgram *program, PyObject *bytes, Py_ssize_t outputs)
{
    char *text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &text, &size) < 0)
        return -1;
    int opened = open_object_program(program, (const uint8_t *)text, (size_t)size);
    if (opened == NO_MEMORY)
        PyErr_NoMemory();
    else if (opened != DONE || (Py_ssize_t)program->output_count != outputs)
        refused("this is not a program for these outputs");
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *py_read_objects(PyObject *self, PyObject *args)
{
    PyObject *program_of, *bytes, *ends_of, *spans_of, *escaped_of, *misfits_of, *result = NULL;
    long long begin;
    if (!PyArg_ParseTuple(args, "SSLOOOO:read_objects", &program_of, &bytes, &begin, &ends_of, &spans_of, &escaped_of,
                          &misfits_of))
        return NULL;
    Block block;
    Buffers buffers;
    ObjectProgram program = {0};
    int32_t *spans[BUFFERS_MAX], *misfits;
    uint8_t *escaped;
    Py_ssize_t lines, outputs;
    buffers.count = 0;
    const int64_t *ends = read_block(bytes, &block) < 0 ? NULL : read_array(&buffers, ends_of, 8, 1, &lines);
    if (ends != NULL && (outputs = lock_places(&buffers, spans_of, lines, spans)) >= 0 &&
        (escaped = write_array(&buffers, escaped_of, 1, 1, outputs)) != NULL &&
        (misfits = write_array(&buffers, misfits_of, 4, UNFIT_NUMBERS, lines)) != NULL &&
        open_program_of(&program, program_of, outputs) == 0) {
        Py_ssize_t fitting, unfit;
        int done;
        Py_BEGIN_ALLOW_THREADS
        done = read_objects(&program, &block, begin, ends, lines, spans, escaped, misfits, &fitting, &unfit);
        Py_END_ALLOW_THREADS
        if (done == DONE)
            result = Py_BuildValue("nn", fitting, unfit);
        else if (done == NO_MEMORY)
            PyErr_NoMemory();
        else
            refused("each line has to end with a newline, behind the one before");
    }
    close_object_program(&program);
    let_go(&buffers);
    return result;
}

/* What a number is that only Python rounds rightly; -1 with an exception, 0: it has no value. */
static int round_hard(const Block *block, const Spans *spans, Py_ssize_t row, double *out)
{
    const uint8_t *at, *end;
    /* As when it was left, or the caller has changed it meanwhile; escapes have been seen to by then. */
    if (text_at(block, spans, row, &at, &end) <= 0 || at == end) {
        refused("values have changed");
        return -1;
    }
    size_t size = (size_t)(end - at);
    char *text = malloc(size + 1);
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    ptrdiff_t own = *at == '"' && size > 1 ? unescaped(at + 1, end - 1, (uint8_t *)text) : (ptrdiff_t)size;
    if (*at != '"')
        memcpy(text, at, size);
    int is_hard = own >= 0 && is_number((uint8_t *)text, (uint8_t *)text + own);
    if (is_hard) {
        text[own] = 0;
        *out = PyOS_string_to_double(text, NULL, NULL);
    } else {
        refused("values have changed");
    }
    free(text);
    return PyErr_Occurred() ? -1 : !isinf(*out);
}

/* Read what has been left to Python, into one of the two arrays; how many do not fit, or BAD with an exception. */
static Py_ssize_t round_all(const Block *block, const Spans *spans, const Hard *hard, int bits, int64_t *integers,
                            double *doubles, uint8_t *valid)
{
    Py_ssize_t unfit = 0;
    for (Py_ssize_t i = 0; i < hard->count; i++) {
        Py_ssize_t row = hard->rows[i];
        double number;
        int has = round_hard(block, spans, row, &number);
        if (has < 0)
            return BAD;
        if (integers != NULL)
            has = has && whole_number(number, bits, &integers[row]);
        else
            doubles[row] = has ? number : 0;
        if (has)
            valid[row / 8] |= (uint8_t)(1 << row % 8);
        unfit += !has;
    }
    return unfit;
}

PyObject *py_object_integers(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out_of, *valid_of;
    int bits;
    if (!PyArg_ParseTuple(args, "SOiOO:object_integers", &bytes, &places, &bits, &out_of, &valid_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Hard hard = {0};
    Py_ssize_t unfit = BAD;
    int64_t *out;
    uint8_t *valid;
    buffers.count = 0;
    if (bits != 32 && bits != 64)
        return refused("integers have 32 or 64 bits");
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (out = write_array(&buffers, out_of, 8, 1, spans.rows)) != NULL &&
        (valid = write_bitmap(&buffers, valid_of, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        unfit = object_integers(&block, &spans, bits, out, valid, &hard);
        Py_END_ALLOW_THREADS
        Py_ssize_t more = unfit < 0 ? 0 : round_all(&block, &spans, &hard, bits, out, NULL, valid);
        unfit = more < 0 ? more : unfit < 0 ? unfit : unfit + more;
    }
    free(hard.rows);
    let_go(&buffers);
    return count_of(unfit);
}

PyObject *py_object_decimals(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out_of, *valid_of;
    if (!PyArg_ParseTuple(args, "SOOO:object_decimals", &bytes, &places, &out_of, &valid_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Hard hard = {0};
    Py_ssize_t unfit = BAD;
    double *out;
    uint8_t *valid;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (out = write_array(&buffers, out_of, 8, 1, spans.rows)) != NULL &&
        (valid = write_bitmap(&buffers, valid_of, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        unfit = object_decimals(&block, &spans, out, valid, &hard);
        Py_END_ALLOW_THREADS
        Py_ssize_t more = unfit < 0 ? 0 : round_all(&block, &spans, &hard, 64, NULL, out, valid);
        unfit = more < 0 ? more : unfit < 0 ? unfit : unfit + more;
    }
    free(hard.rows);
    let_go(&buffers);
    return count_of(unfit);
}

PyObject *py_object_booleans(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out_of, *valid_of;
    if (!PyArg_ParseTuple(args, "SOOO:object_booleans", &bytes, &places, &out_of, &valid_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Py_ssize_t unfit = BAD;
    uint8_t *out, *valid;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (out = write_bitmap(&buffers, out_of, spans.rows)) != NULL &&
        (valid = write_bitmap(&buffers, valid_of, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        unfit = object_booleans(&block, &spans, out, valid);
        Py_END_ALLOW_THREADS
    }
    let_go(&buffers);
    return count_of(unfit);
}

PyObject *py_object_times(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out_of;
    if (!PyArg_ParseTuple(args, "SOO:object_times", &bytes, &places, &out_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Py_ssize_t left = BAD;
    int64_t *out;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (out = write_array(&buffers, out_of, 8, 1, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        left = object_times(&block, &spans, out);
        Py_END_ALLOW_THREADS
    }
    let_go(&buffers);
    return count_of(left);
}

/* Copy texts of so many bytes. */
static PyObject *copied_texts(const Block *block, const Spans *spans, int escaped, Py_ssize_t size)
{
    PyObject *out = PyBytes_FromStringAndSize(NULL, size);
    if (out == NULL)
        return NULL;
    /* Nobody else has it yet. */
    uint8_t *bytes = (uint8_t *)PyBytes_AsString(out);
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = copy_object_texts(block, spans, escaped, bytes, size);
    Py_END_ALLOW_THREADS
    if (done != DONE)
        Py_CLEAR(out);
    return out;
}

PyObject *py_object_texts(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *offsets_of, *valid_of, *out = NULL;
    int escaped;
    if (!PyArg_ParseTuple(args, "SOpOO:object_texts", &bytes, &places, &escaped, &offsets_of, &valid_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Py_ssize_t size = BAD, nulls;
    int64_t *offsets;
    uint8_t *valid;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (offsets = write_array(&buffers, offsets_of, 8, 1, spans.rows + 1)) != NULL &&
        (valid = write_bitmap(&buffers, valid_of, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        size = measure_object_texts(&block, &spans, escaped, offsets, valid, &nulls);
        Py_END_ALLOW_THREADS
        out = size < 0 ? NULL : copied_texts(&block, &spans, escaped, size);
    }
    let_go(&buffers);
    if (out == NULL)
        return count_of(BAD);
    return Py_BuildValue("(Nn)", out, nulls);
}

PyObject *py_object_codes(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *codes_of, *firsts_of, *valid_of;
    if (!PyArg_ParseTuple(args, "SOOOO:object_codes", &bytes, &places, &codes_of, &firsts_of, &valid_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    Py_ssize_t distinct = BAD, nulls;
    uint32_t *codes;
    int32_t *firsts;
    uint8_t *valid;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (codes = write_array(&buffers, codes_of, 4, 1, spans.rows)) != NULL &&
        (firsts = write_array(&buffers, firsts_of, 4, 2, DISTINCT_MAX)) != NULL &&
        (valid = write_bitmap(&buffers, valid_of, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        distinct = code_values(&block, &spans, codes, firsts, valid, &nulls);
        Py_END_ALLOW_THREADS
    }
    let_go(&buffers);
    if (distinct == TOO_MANY)
        return Py_BuildValue("nn", distinct, (Py_ssize_t)0);
    return distinct < 0 ? count_of(distinct) : Py_BuildValue("nn", distinct, nulls);
}
