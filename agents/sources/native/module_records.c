/* The Python face of what finds the records of CSV. */
#include "arguments.h"
#include "records.h"

/* Whether these are the places of newlines in a text, ascending. */
static int are_lines(const RecordLines *lines, Py_ssize_t size)
{
    int64_t before = -1;
    for (Py_ssize_t i = 0; i < lines->count; i++) {
        if (lines->ends[i] <= before || lines->ends[i] >= size || lines->data[lines->ends[i]] != '\n')
            return 0;
        before = lines->ends[i];
    }
    return 1;
}

PyObject *py_records(PyObject *self, PyObject *args)
{
    PyObject *bytes, *ends_of, *lasts_of, *result = NULL;
    char *text;
    Py_ssize_t size, begun = 0, count = 0;
    RecordLines lines;
    Buffers buffers;
    buffers.count = 0;
    if (!PyArg_ParseTuple(args, "SObnnO:records", &bytes, &ends_of, &lines.separator, &lines.bytes_max,
                          &lines.lines_max, &lasts_of) ||
        PyBytes_AsStringAndSize(bytes, &text, &size) < 0)
        return NULL;
    lines.data = (const uint8_t *)text;
    lines.ends = read_array(&buffers, ends_of, 8, 1, &lines.count);
    int64_t *lasts = lines.ends == NULL ? NULL : write_array(&buffers, lasts_of, 8, 1, lines.count);
    if (lasts != NULL) {
        int is_fit;
        Py_BEGIN_ALLOW_THREADS
        is_fit = are_lines(&lines, size);
        if (is_fit)
            count = find_records(&lines, lasts, &begun);
        Py_END_ALLOW_THREADS
        result = is_fit ? Py_BuildValue("nn", count, begun) : refused("these are not where the lines end");
    }
    let_go(&buffers);
    return result;
}
