/* The Python face of the kernels: takes buffers, checks what the kernels rely on, lets other threads run meanwhile. Types
 * and meanings are in __init__.py. */
#include "arguments.h"

#include <stdlib.h>

static PyObject *py_pack(PyObject *self, PyObject *args)
{
    PyObject *values, *sizes, *packed = NULL;
    Py_ssize_t rows;
    unsigned long long word;
    int relative;
    if (!PyArg_ParseTuple(args, "OnOKp:pack", &values, &rows, &sizes, &word, &relative))
        return NULL;
    if (rows < 1 || rows > PY_SSIZE_T_MAX / 16 || word > UINT32_MAX)
        return refused("there has to be a row, and no text is that long");
    Columns columns;
    columns.count = 0;
    uint8_t *out = malloc((size_t)packed_bytes_max(rows));
    if (out == NULL)
        return PyErr_NoMemory();
    if (add_column(&columns, values, rows) == 0 && (sizes == Py_None || add_column(&columns, sizes, rows) == 0)) {
        columns.columns[0].rows = columns.columns[1].rows = rows;
        Packing packing = {columns.columns[0], sizes == Py_None ? NULL : &columns.columns[1], word, relative};
        Py_ssize_t bytes;
        Py_BEGIN_ALLOW_THREADS
        bytes = pack(&packing, out);
        Py_END_ALLOW_THREADS
        packed = PyBytes_FromStringAndSize((const char *)out, bytes);
    }
    let_go(&columns);
    free(out);
    return packed;
}

static PyObject *py_unpack(PyObject *self, PyObject *args)
{
    Py_buffer data, out;
    Py_ssize_t at, read = -1;
    PyObject *sizes;
    unsigned long long word;
    if (!PyArg_ParseTuple(args, "y*nOKw*:unpack", &data, &at, &sizes, &word, &out))
        return NULL;
    Columns columns;
    columns.count = 0;
    int fits = at >= 0 && at <= data.len && word <= UINT32_MAX && is_aligned(&out, 8);
    if (fits && (sizes == Py_None || add_column(&columns, sizes, eights(&out)) == 0)) {
        const uint8_t *bytes = (const uint8_t *)data.buf + at;
        columns.columns[0].rows = eights(&out);
        Py_BEGIN_ALLOW_THREADS
        read = sizes == Py_None ? unpack(bytes, data.len - at, eights(&out), out.buf)
                                : unpack_text(bytes, data.len - at, &columns.columns[0], word, out.buf);
        Py_END_ALLOW_THREADS
    }
    let_go(&columns);
    PyBuffer_Release(&data);
    PyBuffer_Release(&out);
    if (read < 0 && !PyErr_Occurred())
        return refused("fewer bytes than the column needs");
    return read < 0 ? NULL : PyLong_FromSsize_t(at + read);
}

static PyObject *py_hash_words(PyObject *self, PyObject *args)
{
    PyObject *words;
    Py_buffer out;
    if (!PyArg_ParseTuple(args, "Ow*:hash_words", &words, &out))
        return NULL;
    Columns columns;
    columns.count = 0;
    if (!is_aligned(&out, 8)) {
        refused("words have to be aligned");
    } else if (add_columns(&columns, words, eights(&out)) == 0) {
        Py_BEGIN_ALLOW_THREADS
        hash_words(columns.columns, columns.count, eights(&out), out.buf);
        Py_END_ALLOW_THREADS
    }
    let_go(&columns);
    PyBuffer_Release(&out);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_sort_packed(PyObject *self, PyObject *args)
{
    Py_buffer packed;
    if (!PyArg_ParseTuple(args, "w*:sort_packed", &packed))
        return NULL;
    uint64_t *scratch = malloc((size_t)packed.len);
    if (scratch != NULL && is_aligned(&packed, 8) && eights(&packed) <= (Py_ssize_t)NUMBER_MASK + 1) {
        Py_BEGIN_ALLOW_THREADS
        sort_packed(packed.buf, scratch, eights(&packed));
        Py_END_ALLOW_THREADS
    } else if (scratch == NULL) {
        PyErr_NoMemory();
    } else {
        refused("more rows than have numbers, or not aligned");
    }
    free(scratch);
    PyBuffer_Release(&packed);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_first_rows(PyObject *self, PyObject *args)
{
    PyObject *words;
    Py_buffer packed, starts;
    if (!PyArg_ParseTuple(args, "Oy*w*:first_rows", &words, &packed, &starts))
        return NULL;
    Columns columns;
    columns.count = 0;
    Py_ssize_t count = -2;
    if (is_aligned(&packed, 8) && is_aligned(&starts, 8) && starts.len >= packed.len &&
        add_columns(&columns, words, 1) == 0) {
        Py_BEGIN_ALLOW_THREADS
        count = first_rows(columns.columns, columns.count, packed.buf, eights(&packed), starts.buf);
        Py_END_ALLOW_THREADS
    }
    let_go(&columns);
    PyBuffer_Release(&packed);
    PyBuffer_Release(&starts);
    if (count == -2 && !PyErr_Occurred())
        return refused("a row's number is not one of the columns', or there is no place for all");
    return count == -2 ? NULL : PyLong_FromSsize_t(count);
}

static PyObject *py_locate(PyObject *self, PyObject *args)
{
    PyObject *many, *few;
    Py_buffer order, wanted, places;
    if (!PyArg_ParseTuple(args, "OOy*y*w*:locate", &many, &few, &order, &wanted, &places))
        return NULL;
    Columns columns;
    columns.count = 0;
    int located = -2;
    if (is_aligned(&order, 8) && is_aligned(&wanted, 8) && is_aligned(&places, 8) && places.len >= wanted.len &&
        add_columns(&columns, many, eights(&order)) == 0) {
        Py_ssize_t width = columns.count;
        if (add_columns(&columns, few, eights(&wanted)) == 0 && columns.count == 2 * width) {
            Py_BEGIN_ALLOW_THREADS
            located = locate(columns.columns, columns.columns + width, width, order.buf, eights(&order), wanted.buf,
                             eights(&wanted), places.buf);
            Py_END_ALLOW_THREADS
        }
    }
    let_go(&columns);
    PyBuffer_Release(&order);
    PyBuffer_Release(&wanted);
    PyBuffer_Release(&places);
    if (located == -2 && !PyErr_Occurred())
        return refused("both sides have to have the same columns, and each key a place");
    return located == -2 ? NULL : PyBool_FromLong(located == 0);
}

static PyObject *py_take(PyObject *self, PyObject *args)
{
    PyObject *values, *starts;
    Py_buffer packed, out;
    if (!PyArg_ParseTuple(args, "Oy*Ow*:take", &values, &packed, &starts, &out))
        return NULL;
    Columns columns;
    columns.count = 0;
    int taken = -2;
    Py_ssize_t rows = eights(&packed), count = eights(&out);
    if (is_aligned(&packed, 8) && is_aligned(&out, 8) && add_column(&columns, values, 1) == 0 &&
        (starts == Py_None ? rows >= count : add_column(&columns, starts, count) == 0)) {
        const int64_t *places = starts == Py_None ? NULL : columns.columns[1].items;
        if (starts == Py_None || (places != NULL && columns.columns[1].item_bytes == 8)) {
            Py_BEGIN_ALLOW_THREADS
            taken = take_rows(&columns.columns[0], packed.buf, rows, places, count, out.buf);
            Py_END_ALLOW_THREADS
        }
    }
    let_go(&columns);
    PyBuffer_Release(&packed);
    PyBuffer_Release(&out);
    if (taken < 0 && !PyErr_Occurred())
        return refused("a row's number is not one of the column's");
    return taken < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_sum_runs(PyObject *self, PyObject *args)
{
    Py_buffer values, starts, out;
    if (!PyArg_ParseTuple(args, "y*y*w*:sum_runs", &values, &starts, &out))
        return NULL;
    int summed = -2;
    if (is_aligned(&values, 8) && is_aligned(&starts, 8) && is_aligned(&out, 8) && out.len >= starts.len) {
        Py_BEGIN_ALLOW_THREADS
        summed = sum_runs(values.buf, eights(&values), starts.buf, eights(&starts), out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&out);
    if (summed == -2)
        return refused("runs have to ascend among the rows");
    return PyBool_FromLong(summed == 0);
}

static PyObject *py_words_of_views(PyObject *self, PyObject *args)
{
    PyObject *texts, *rows;
    Py_buffer views, out;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "y*OOnw*:words_of_views", &views, &texts, &rows, &count, &out))
        return NULL;
    Columns columns;
    columns.count = 0;
    int done = -2;
    /* The texts' buffers first, then the rows. */
    Py_ssize_t buffers = add_columns(&columns, texts, 0) < 0 ? -1 : columns.count;
    if (buffers >= 0 && count > 0 && is_aligned(&out, 8) &&
        (rows == Py_None || add_column(&columns, rows, count) == 0)) {
        const int64_t *numbers = rows == Py_None ? NULL : columns.columns[buffers].items;
        if (rows == Py_None || (numbers != NULL && columns.columns[buffers].item_bytes == 8)) {
            Py_ssize_t width = eights(&out) / count;
            Py_BEGIN_ALLOW_THREADS
            done = words_of_views(views.buf, views.len / 16, columns.columns, buffers, numbers, count, width, out.buf);
            Py_END_ALLOW_THREADS
        }
    }
    let_go(&columns);
    PyBuffer_Release(&views);
    PyBuffer_Release(&out);
    if (done < 0 && !PyErr_Occurred())
        return refused("a text is longer than the words or lies outside its buffer");
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"pack", py_pack, METH_VARARGS, NULL},
    {"unpack", py_unpack, METH_VARARGS, NULL},
    {"hash_words", py_hash_words, METH_VARARGS, NULL},
    {"sort_packed", py_sort_packed, METH_VARARGS, NULL},
    {"first_rows", py_first_rows, METH_VARARGS, NULL},
    {"locate", py_locate, METH_VARARGS, NULL},
    {"take", py_take, METH_VARARGS, NULL},
    {"sum_runs", py_sum_runs, METH_VARARGS, NULL},
    {"merge_blocks", py_merge_blocks, METH_VARARGS, NULL},
    {"write_ranked", py_write_ranked, METH_VARARGS, NULL},
    {"words_of_views", py_words_of_views, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "elf.cbt.native._kernels", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&module);
}
