"""Request schema of sanitation reports."""

from app.api.values.value_types import PageQuery


class SanitationQuery(PageQuery):
    """Query parameters of the sanitation reports of a node."""

    class Meta:
        exclude = ("sort_key",)
