"""What a reply asks to wait, in either form the header may have."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from turnwise.runtime.retry_after import retry_after_seconds


def test_a_wait_is_seconds_or_a_date() -> None:
    assert retry_after_seconds(None) is None
    assert retry_after_seconds("2") == 2
    assert retry_after_seconds("0.3") == 0.3
    assert [retry_after_seconds(text) for text in ("", "soon", "-5", "1.2.3", "nan", "9" * 400)] == [None] * 6
    assert retry_after_seconds(f"Mon, 16 Nov 2026 10:00:{'9' * 40} GMT") is None
    later = retry_after_seconds(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert later is not None
    assert 25 < later <= 30
    assert retry_after_seconds(format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)) == 0
