/* The Python face of what reads objects, and of what their values are worth. */
#include <math.h>
#include <stdlib.h>

#include "arguments.h"
#include "objects.h"

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
    if (ends != NULL && (outputs = write_spans(&buffers, spans_of, lines, spans)) >= 0 &&
        (escaped = write_array(&buffers, escaped_of, 1, 1, outputs)) != NULL &&
        (misfits = write_array(&buffers, misfits_of, 4, UNFIT_NUMBERS, lines)) != NULL &&
        open_program_of(&program, program_of, outputs) == 0) {
        Py_ssize_t fitting, unfit;
        int done;
        Py_BEGIN_ALLOW_THREADS
        done = read_objects(&program, &block, begin, ends, lines, spans, escaped, misfits, &fitting, &unfit);
        Py_END_ALLOW_THREADS
        result = counts_of_lines(done, fitting, unfit);
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

/* Read what has been left to Python into a column of doubles; how many do not fit, or BAD with an exception. */
static Py_ssize_t round_all(Column *column, const Hard *hard)
{
    Py_ssize_t unfit = 0;
    for (Py_ssize_t i = 0; i < hard->count; i++) {
        Py_ssize_t row = hard->rows[i];
        double number;
        int has = round_hard(&column->block, &column->spans, row, &number);
        if (has < 0)
            return BAD;
        ((double *)column->out)[row] = has ? number : 0;
        if (has)
            column->valid[row / 8] |= (uint8_t)(1 << row % 8);
        unfit += !has;
    }
    return unfit;
}

/* Integers of so many bits, or doubles (0). */
static PyObject *numbers_of(PyObject *bytes, PyObject *places, int bits, PyObject *out, PyObject *valid)
{
    Column column;
    Hard hard = {0};
    Py_ssize_t unfit = BAD;
    if (open_column(&column, bytes, places, out, 8, valid) == 0) {
        Py_BEGIN_ALLOW_THREADS
        unfit = bits != 0 ? object_integers(&column.block, &column.spans, bits, column.out, column.valid)
                          : object_decimals(&column.block, &column.spans, column.out, column.valid, &hard);
        Py_END_ALLOW_THREADS
        Py_ssize_t more = unfit < 0 ? 0 : round_all(&column, &hard);
        unfit = more < 0 ? more : unfit < 0 ? unfit : unfit + more;
    }
    free(hard.rows);
    let_go(&column.buffers);
    return count_of(unfit);
}

PyObject *py_object_integers(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out, *valid;
    int bits;
    if (!PyArg_ParseTuple(args, "SOiOO:object_integers", &bytes, &places, &bits, &out, &valid))
        return NULL;
    if (bits != 32 && bits != 64)
        return refused("integers have 32 or 64 bits");
    return numbers_of(bytes, places, bits, out, valid);
}

PyObject *py_object_decimals(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out, *valid;
    if (!PyArg_ParseTuple(args, "SOOO:object_decimals", &bytes, &places, &out, &valid))
        return NULL;
    return numbers_of(bytes, places, 0, out, valid);
}

PyObject *py_object_booleans(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out, *valid;
    if (!PyArg_ParseTuple(args, "SOOO:object_booleans", &bytes, &places, &out, &valid))
        return NULL;
    Column column;
    Py_ssize_t unfit = BAD;
    if (open_column(&column, bytes, places, out, 0, valid) == 0) {
        Py_BEGIN_ALLOW_THREADS
        unfit = object_booleans(&column.block, &column.spans, column.out, column.valid);
        Py_END_ALLOW_THREADS
    }
    let_go(&column.buffers);
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
