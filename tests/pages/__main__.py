"""Write the pages anew."""

from tests.pages import columns, metrics, settings, sql_functions

for each in (columns, metrics, settings, sql_functions):
    each.PAGE.write_text(each.page())
