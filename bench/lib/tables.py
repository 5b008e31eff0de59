"""Markdown tables and the numbers in them."""


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def number(value):
    """A figure with as many digits as say something; - for none."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def ratio(value, of):
    """value / of, or None where that says nothing."""
    return value / of if value is not None and of else None


def times(value):
    return "-" if value is None else number(value) + "x"
