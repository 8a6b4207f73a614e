"""One Chromium for all tests of the page, a fresh tab for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser.devtools import Tab, chromium


@pytest.fixture(scope="session")
def new_tab() -> Iterator[Callable[[], Tab]]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def tab(new_tab: Callable[[], Tab]) -> Iterator[Tab]:
    found = new_tab()
    found.size(1280)
    found.scheme("light")
    yield found
    found.close()
