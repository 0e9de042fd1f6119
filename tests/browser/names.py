"""What a program that reads a page aloud is told, by the browser's own accessibility tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["focusable"]


def focusable(page: Page, selector: str = ".kst-panel") -> list[tuple[str, str]]:
    """Return role and name of all that can have the focus, in the first element of a selector."""
    tree = page.context.new_cdp_session(page)
    root = tree.send("DOM.getDocument")["root"]["nodeId"]
    place = tree.send("DOM.querySelector", {"nodeId": root, "selector": selector})
    nodes = tree.send("Accessibility.queryAXTree", {"nodeId": place["nodeId"]})["nodes"]
    tree.detach()
    return [(each["role"]["value"], _text(each.get("name"))) for each in nodes if _takes(each)]


def _takes(node: dict[str, Any]) -> bool:
    told = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
    return bool(told.get("focusable"))


def _text(value: dict[str, Any] | None) -> str:
    return "" if value is None else str(value.get("value", "")).strip()
