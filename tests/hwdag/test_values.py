"""Values of cells are shown as their program shows them."""

from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag_files.values import as_shown

MARCH = datetime(2024, 3, 5, 9, 30)


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (0.1 + 0.2, "General", "0.3"),
        (12, "General", "12"),
        (1e7, "General", "10000000"),
        (0.4567, "0%", "46%"),
        (0.4567, "0.0%", "45.7%"),
        (1, "0%", "100%"),
        (1234.5, "#,##0.00", "1234.50"),
        (1234.5, '#,##0.00\\ "€"', "1234.50 €"),
        (1234.5, "[$£-809]#,##0", "£1235"),
        (12.5, '0.0 "kg"', "12.5 kg"),
        (2.5, "0", "3"),
        (-2.5, "0", "-3"),
        (-7, "0;(0)", "(7)"),
        (0, '0;-0;"none"', "none"),
        (-0.001, "0.0", "0.0"),
        (123, "00000", "00123"),
        (78051120, "000-00-0000", "078-05-1120"),
        (0.5, "#.##", ".5"),
        (7, "0.0#", "7.0"),
        (4_200_000, '0.0,,"M"', "4.2M"),
        (0.25, "# ?/?", "0.25"),
        (1.5e300, "0", "15" + "0" * 299),
        (6.02e23, "0.00E+00", "6.02e+23"),
        (5, ";;;", ""),
        (5, "[Red]0;[Blue]0", "5"),
        (True, "General", "TRUE"),
        ("0123", "0%", "0123"),
        (MARCH, "yyyy-mm-dd h:mm:ss", "2024-03-05 09:30:00"),
        (MARCH, "dd/mm/yyyy", "2024-03-05"),
        (MARCH, "d mmm", "2024-03-05"),
        (MARCH, "mmm-yy", "2024-03"),
        (MARCH, "yyyy", "2024"),
        (MARCH, "h:mm AM/PM", "09:30"),
        (MARCH, "[$-407]d. mmmm yyyy;@", "2024-03-05"),
        (datetime(2024, 3, 5), "yyyy-mm-dd h:mm", "2024-03-05"),
        (date(2024, 3, 5), "General", "2024-03-05"),
        (time(9, 5), "h:mm", "09:05"),
        (time(9, 5, 7), "h:mm:ss", "09:05:07"),
        (timedelta(hours=30, minutes=5), "[h]:mm", "30:05:00"),
        (timedelta(minutes=-5), "[h]:mm", "-0:05:00"),
    ],
)
def test_a_value_is_shown_by_its_format(value, form, shown):
    assert as_shown(value, form) == shown


@given(
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**15), 10**15),
    st.text('0#?.,%;"\\ -E+[]€_*@/', max_size=20),
)
def test_any_format_gives_a_text(value, form):
    assert isinstance(as_shown(value, form), str)
