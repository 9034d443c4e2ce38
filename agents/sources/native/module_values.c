/* The Python face of what texts are worth, and of what copies them. */
#include <math.h>
#include <stdlib.h>

#include "arguments.h"

PyObject *py_integers(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out, *valid;
    if (!PyArg_ParseTuple(args, "SOOO:integers", &bytes, &places, &out, &valid))
        return NULL;
    Column column;
    Py_ssize_t unfit = BAD;
    if (open_column(&column, bytes, places, out, 8, valid) == 0) {
        Py_BEGIN_ALLOW_THREADS
        unfit = read_integers(&column.block, &column.spans, column.out, column.valid);
        Py_END_ALLOW_THREADS
    }
    let_go(&column.buffers);
    return count_of(unfit);
}

/* A number that only Python rounds rightly; -1 with an exception, 0: it is beyond a double. */
static int round_hard(const uint8_t *at, const uint8_t *end, int is_duration_kind, double *out)
{
    const uint8_t *unit = is_duration_kind ? unit_of(at, end) : end;
    char *text = malloc((size_t)(unit - at) + 1);
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(text, at, (size_t)(unit - at));
    text[unit - at] = 0;
    *out = PyOS_string_to_double(text, NULL, NULL);
    free(text);
    if (PyErr_Occurred())
        return -1;
    if (is_duration_kind)
        *out = in_seconds(*out, unit, end);
    return !isinf(*out);
}

/* Read what has been left to Python; how many are beyond a double, or BAD. */
static Py_ssize_t round_all(const Block *block, const Spans *spans, int is_duration_kind, double *out, uint8_t *valid)
{
    Py_ssize_t unfit = 0;
    for (Py_ssize_t row = 0; row < spans->rows; row++) {
        const uint8_t *at, *end;
        if (!isnan(out[row]))
            continue;
        /* As when it was left, or the caller has changed it meanwhile. */
        int has = text_at(block, spans, row, &at, &end);
        if (has <= 0 || !(is_duration_kind ? is_duration(at, end) : is_number(at, end)))
            return BAD;
        has = round_hard(at, end, is_duration_kind, &out[row]);
        if (has < 0)
            return BAD;
        if (!has) {
            out[row] = 0;
            valid[row / 8] &= (uint8_t)~(1 << row % 8);
            unfit++;
        }
    }
    return unfit;
}

PyObject *py_decimals(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *out, *valid;
    int is_duration_kind;
    if (!PyArg_ParseTuple(args, "SOpOO:decimals", &bytes, &places, &is_duration_kind, &out, &valid))
        return NULL;
    Column column;
    Py_ssize_t unfit = BAD, hard = 0;
    if (open_column(&column, bytes, places, out, 8, valid) == 0) {
        Py_BEGIN_ALLOW_THREADS
        unfit = read_decimals(&column.block, &column.spans, is_duration_kind, column.out, column.valid, &hard);
        Py_END_ALLOW_THREADS
        if (unfit >= 0 && hard > 0) {
            Py_ssize_t more = round_all(&column.block, &column.spans, is_duration_kind, column.out, column.valid);
            unfit = more < 0 ? more : unfit + more;
        }
    }
    let_go(&column.buffers);
    return count_of(unfit);
}

PyObject *py_requests(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *method_of, *uri_of, *protocol_of;
    if (!PyArg_ParseTuple(args, "SOOOO:requests", &bytes, &places, &method_of, &uri_of, &protocol_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    int done = BAD;
    int32_t *method, *uri, *protocol;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (method = write_array(&buffers, method_of, 4, 2, spans.rows)) != NULL &&
        (uri = write_array(&buffers, uri_of, 4, 2, spans.rows)) != NULL &&
        (protocol = write_array(&buffers, protocol_of, 4, 2, spans.rows)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        done = read_requests(&block, &spans, method, uri, protocol);
        Py_END_ALLOW_THREADS
    }
    let_go(&buffers);
    return done < 0 ? count_of(done) : Py_NewRef(Py_None);
}

PyObject *py_uris(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *path_of, *query_of, *host_of;
    if (!PyArg_ParseTuple(args, "SOOOO:uris", &bytes, &places, &path_of, &query_of, &host_of))
        return NULL;
    Block block;
    Spans spans;
    Buffers buffers;
    int done = BAD;
    int32_t *path, *query, *host = NULL;
    buffers.count = 0;
    if (read_texts(&buffers, bytes, places, &block, &spans) == 0 &&
        (path = write_array(&buffers, path_of, 4, 2, spans.rows)) != NULL &&
        (query = write_array(&buffers, query_of, 4, 2, spans.rows)) != NULL &&
        (host_of == Py_None || (host = write_array(&buffers, host_of, 4, 2, spans.rows)) != NULL)) {
        Py_BEGIN_ALLOW_THREADS
        done = read_uris(&block, &spans, path, query, host);
        Py_END_ALLOW_THREADS
        if (done == NO_MEMORY)
            PyErr_NoMemory();
    }
    let_go(&buffers);
    return done < 0 ? count_of(done) : Py_NewRef(Py_None);
}

/* Gather texts of so many bytes. */
static PyObject *gathered(const Block *block, const Spans *spans, Py_ssize_t size)
{
    PyObject *out = PyBytes_FromStringAndSize(NULL, size);
    if (out == NULL)
        return NULL;
    /* Nobody else has it yet. */
    uint8_t *bytes = (uint8_t *)PyBytes_AsString(out);
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = copy_texts(block, spans, bytes, size);
    Py_END_ALLOW_THREADS
    if (done != DONE)
        Py_CLEAR(out);
    return out;
}

PyObject *py_gather(PyObject *self, PyObject *args)
{
    PyObject *bytes, *places, *offsets_of, *valid_of, *out = NULL;
    if (!PyArg_ParseTuple(args, "SOOO:gather", &bytes, &places, &offsets_of, &valid_of))
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
        size = measure_texts(&block, &spans, offsets, valid, &nulls);
        Py_END_ALLOW_THREADS
        out = size < 0 ? NULL : gathered(&block, &spans, size);
    }
    let_go(&buffers);
    if (out == NULL)
        return count_of(BAD);
    return Py_BuildValue("(Nn)", out, nulls);
}
