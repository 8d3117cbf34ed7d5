"""Requests for tools of real servers, and the tools that answer them. Tests and benchmarks rank tools with them.

The requests name tasks in the words of a user, and not the names of tools.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fxai import Tool
from fxai.tools import AnyTool

__all__ = ["LARGE", "MANY", "large_server", "many_servers", "recall"]

_LISTS: Final = Path(__file__).parents[1] / "integration" / "mcp_schemas"


@lru_cache(maxsize=1)
def large_server() -> tuple[AnyTool, ...]:
    """Return the 344 tools of `@softeria/ms-365-mcp-server` 0.155.0 in its mode for organizations.

    The file contains the names, the descriptions, and the parameters without the members of parameters.
    """
    text = lzma.decompress((_LISTS / "large" / "ms-365.json.xz").read_bytes())
    return tuple(_tool(one["name"], one["description"], one["parameters"]) for one in json.loads(text))


@lru_cache(maxsize=1)
def many_servers() -> tuple[AnyTool, ...]:
    """Return the tools of eleven small servers."""
    listed = [tool for path in sorted(_LISTS.glob("*.json")) for tool in json.loads(path.read_bytes())["tools"]]
    return tuple(
        Tool.dynamic(one["name"], description=one.get("description"), parameters=one["inputSchema"]) for one in listed
    )


def _tool(name: str, description: str, parameters: dict[str, str]) -> AnyTool:
    properties: dict[str, Any] = {key: {"description": words} if words else {} for key, words in parameters.items()}
    return Tool.dynamic(name, description=description, parameters={"type": "object", "properties": properties})


def recall(found: Sequence[Sequence[str]], requests: Sequence[tuple[str, str]]) -> int:
    """Return the number of requests whose tool was found."""
    return sum(wanted in names for names, (_, wanted) in zip(found, requests, strict=True))


LARGE: Final[tuple[tuple[str, str], ...]] = (
    ("send an email to Ann", "send-mail"),
    ("reply to everyone on this mail", "reply-all-mail-message"),
    ("forward this message to my boss", "forward-mail-message"),
    ("delete an email", "delete-mail-message"),
    ("show the attachments of a mail", "list-mail-attachments"),
    ("move a mail into another folder", "move-mail-message"),
    ("make a rule that sorts incoming mail", "create-mail-rule"),
    ("set my out of office auto reply", "update-mailbox-settings"),
    ("create a folder for mail", "create-mail-folder"),
    ("write a draft email", "create-draft-email"),
    ("what is on my calendar this week", "get-calendar-view"),
    ("schedule a meeting", "create-calendar-event"),
    ("cancel the appointment", "cancel-calendar-event"),
    ("accept an invitation", "accept-calendar-event"),
    ("find a free slot for everybody", "find-meeting-times"),
    ("when is Bob available", "get-schedule"),
    ("who shares my calendar", "list-my-calendar-permissions"),
    ("upload a file to OneDrive", "upload-file-content"),
    ("search my files", "search-onedrive-files"),
    ("share a document by a link", "create-drive-item-share-link"),
    ("rename a file", "move-rename-onedrive-item"),
    ("older versions of a document", "list-drive-item-versions"),
    ("create a new folder in OneDrive", "create-onedrive-folder"),
    ("who can open this file", "list-drive-item-permissions"),
    ("add rows to an Excel table", "add-excel-table-rows"),
    ("draw a chart in the spreadsheet", "create-excel-chart"),
    ("read cells of a worksheet", "get-excel-range"),
    ("sort the cells", "sort-excel-range"),
    ("merge cells", "merge-excel-range"),
    ("post in a Teams channel", "send-channel-message"),
    ("react to a chat message with an emoji", "set-chat-message-reaction"),
    ("add somebody to the team", "add-team-member"),
    ("members of a team", "list-team-members"),
    ("start a chat with Ann", "create-chat"),
    ("transcript of the meeting", "get-meeting-transcript-content"),
    ("recording of the call", "list-meeting-recordings"),
    ("who attended the meeting", "list-meeting-attendance-records"),
    ("set my status to busy", "set-my-presence"),
    ("add a task to my to-do list", "create-todo-task"),
    ("mark the todo as done", "update-todo-task"),
    ("tasks in the planner plan", "list-plan-tasks"),
    ("new bucket in planner", "create-planner-bucket"),
    ("add a page to my notebook", "create-onenote-page"),
    ("content of a OneNote page", "get-onenote-page-content"),
    ("items of a SharePoint list", "list-sharepoint-site-list-items"),
    ("find a SharePoint site", "search-sharepoint-sites"),
    ("phone number of a contact", "get-outlook-contact"),
    ("add a contact", "create-outlook-contact"),
    ("who is my manager", "get-my-manager"),
    ("people who report to me", "list-my-direct-reports"),
    ("mail in the shared mailbox", "list-shared-mailbox-messages"),
    ("book a room", "get-room"),
    ("change my profile picture", "upload-my-profile-photo"),
    ("log out", "logout"),
    ("get notified about changes", "create-subscription"),
)
"""Requests for a tool of `large_server`."""

MANY: Final[tuple[tuple[str, str], ...]] = (
    ("read a file", "read_text_file"),
    ("change a line in a file", "edit_file"),
    ("what files are in this directory", "list_directory"),
    ("rename a file", "move_file"),
    ("size of a file", "get_file_info"),
    ("make a folder", "create_directory"),
    ("find files by pattern", "search_files"),
    ("what changed in the repository", "git_diff_unstaged"),
    ("commit the changes", "git_commit"),
    ("history of commits", "git_log"),
    ("switch to another branch", "git_checkout"),
    ("new branch", "git_create_branch"),
    ("stage a file", "git_add"),
    ("unstage everything", "git_reset"),
    ("press a button on the page", "click"),
    ("type into a form", "fill_form"),
    ("open a website", "navigate_page"),
    ("take a picture of the page", "take_screenshot"),
    ("errors in the browser console", "list_console_messages"),
    ("requests that the page made", "list_network_requests"),
    ("run JavaScript", "evaluate_script"),
    ("upload a file in the browser", "upload_file"),
    ("measure the performance of the page", "performance_start_trace"),
    ("emulate a slow network", "emulate"),
    ("what time is it in Tokyo", "get_current_time"),
    ("convert a time between zones", "convert_time"),
    ("run a SQL query", "read_query"),
    ("columns of a table", "describe_table"),
    ("insert rows into the database", "write_query"),
    ("create a table", "create_table"),
    ("post a message in a Slack channel", "slack_post_message"),
    ("answer in a thread", "slack_reply_to_thread"),
    ("add an emoji", "slack_add_reaction"),
    ("who is in the workspace", "slack_get_users"),
    ("last messages of a channel", "slack_get_channel_history"),
    ("remember that Ann likes tea", "add_observations"),
    ("forget an entity", "delete_entities"),
    ("what do we know about Ann", "search_nodes"),
    ("download a web page", "fetch"),
    ("add two numbers", "get-sum"),
    ("think step by step", "sequentialthinking"),
    ("compute 2 + 2", "calculate"),
)
"""Requests for a tool of `many_servers`."""
