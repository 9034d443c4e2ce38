/* Which bytes names, numbers and the like are made of. */
#include "lines.h"

#define ANY (ITEM | WORD)
#define OF_NAMES (NAME | INNER | TOKEN | SCHEME | IDENT | PEER | ANY)
#define LETTERS (LETTER | FORGED | OF_NAMES)
#define MARK (FORGED | ANY)

const uint16_t classes[256] = {
    ['!'] = TOKEN | MARK,
    ['"'] = WORD,
    ['#' ... '$'] = TOKEN | MARK,
    ['%'] = TOKEN | PEER | ANY,
    ['&'] = TOKEN | MARK,
    ['\''] = TOKEN | ANY,
    ['(' ... ')'] = ANY,
    ['*'] = TOKEN | MARK,
    ['+'] = TOKEN | SCHEME | MARK,
    [','] = WORD,
    ['-'] = INNER | TOKEN | SCHEME | IDENT | PEER | ANY,
    ['.'] = INNER | TOKEN | SCHEME | PEER | ANY,
    ['/'] = ANY,
    ['0' ... '9'] = DIGIT | HEX | OF_NAMES,
    [':'] = PEER | ANY,
    [';' ... '@'] = MARK,
    ['A' ... 'F'] = UPPER | HEX | LETTERS,
    ['G' ... 'Z'] = UPPER | LETTERS,
    ['['] = ANY,
    ['\\'] = MARK,
    [']'] = ANY,
    ['^'] = TOKEN | MARK,
    ['_'] = NAME | INNER | TOKEN | IDENT | PEER | ANY,
    ['`'] = TOKEN | MARK,
    ['a' ... 'f'] = HEX | LETTERS,
    ['g' ... 'z'] = LETTERS,
    ['{'] = ANY,
    ['|'] = TOKEN | MARK,
    ['}'] = ANY,
    ['~'] = TOKEN | MARK,
    [0x7F ... 0xFF] = ANY,
};
