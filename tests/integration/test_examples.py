"""The examples: each runs offline, says what it promises, and leaves nothing behind."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.tiers import in_tiers

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

SAID = {
    "10_one_tool.py": [
        "Called with JSON: Shopping(items={'spaghetti': 500, 'tomatoes': 800})",
        "/people: expected integer, found string 'four'",
        "Called from here: UnknownDish(dish='soup', known=('pasta', 'risotto'))",
        "Turn 1: failed with UnknownDish(dish='spaghetti'",
        "Turn 2: got Shopping(items={'spaghetti': 250, 'tomatoes': 400})",
        "Answer: Buy 250 g of spaghetti and 400 g of tomatoes.",
    ],
    "20_two_layers.py": [
        "In a test: two loaves\nIn a test: oat, please\n",
        "For real:  two loaves\nFor real:  NoSuchNote(title='milk')\n",
    ],
    "30_tools_from_json.py": [
        "convert: Converts a length. Dynamic: True.",
        "convert: 26.2187",
        "refused: /value: expected number at least 0, found integer -1",
        "refused: /from: expected one of 'm', 'km', 'mi', found string 'yd'",
        "noticed: handlers do not match Toolkit(convert, units): no handler for: units",
    ],
    "40_tools_from_functions.py": [
        "Called from here:   <Success: 7.5>",
        "Tools:              price, Tab.order, Tab.read",
        "Turn 1: price failed with SoldOut(left=('tea', 'coffee'))",
        "Turn 2: price gave 5.0",
        "Turn 3: Tab.order gave 2",
        "On the tab: ['tea', 'tea']",
    ],
    "45_order_desk.py": [
        "Order 1 is open, at 1000 cents.\nOrder 1 is cancelled, at 1000 cents.\nOrder 1 is cancelled.\n",
    ],
    "46_price_desk.py": [
        "results:\n  250\n  no price for milk\nanswer: Tea costs 250 cents. We have no milk.\nanswer: Two teas cost",
    ],
    "47_price_layers.py": [
        "open\ntotal: 500\nno price for milk\nretried: 0\ntool: 250\ntool: no price for milk\nclose\n",
    ],
    "50_aspects_and_composites.py": [
        "weather Oslo: 21.4\npeople Oslo: 717710\nweather Oslo: 21.4\n",
        "weather Rome: {'error': {'station': 'Rome'}}",
        "height Rome: {'error': {'type': 'unknown-tool', 'name': 'height', 'known': ['weather', 'people']",
        "The station in Oslo was asked 2 times, the one in Rome 3 times.",
    ],
    "55_guards.py": [
        "  sent: To ann@example.org: Hello.\nThe model received: Greet <email-1>, then read the news.\n",
        "Third call: guard 'no-exfiltration' refused the arguments of 'send_mail': the conversation contains data",
        "Answer: I wrote to ann@example.org.",
    ],
    "60_approvals_and_chat.py": [
        "Agreed:\n  sent to mum@home.example: I moved.\n  waits: send {'to': 'bank@example.com', 'text': 'I moved.'}\n",
        "  sent to bank@example.com: I moved.\n  Both know now.\n",
        "Tampered with:\n  sent to mum@home.example: I moved.\n  waits: send",
        "is refused: the call or the tool differs from the request",
    ],
    "70_one_program_four_models.py": [
        "responses: weather({'city': 'Oslo'}) -> It snows in Oslo, at -3 degrees.",
        "chat: weather({'city': 'Oslo'}) -> It snows in Oslo, at -3 degrees.",
        "messages: weather({'city': 'Oslo'}) -> It snows in Oslo, at -3 degrees.",
        "local: ",
    ],
    "80_bind_tools_for_one_run.py": [
        "with one more: ['add', 'double'], and the answer is 10.",
        "the model had [] and said: Good day.",
        "the library opens\n  the library closes\n  Shelf.author gave 'Jane Austen'",
        "and the agent has ['add'], as before",
    ],
    "85_extract_documents.py": [
        "100 of 500\n200 of 500\n300 of 500\n400 of 500\n500 of 500\n499 invoices of 12473700 cents, skipped: [13]\n",
    ],
    "86_evaluate_an_agent.py": [
        "adds  calls add with {'a': 17, 'b': 25}  9 of 10   90%   60% to 98%",
        "      never calls wipe                   10 of 10  100%  72% to 100%",
    ],
    "85_compare_runs.py": [
        "unchanged: no difference\n",
        "/calls/price/result: 250 → 300\n",
        '/answer: "I ordered tea." → "Done."\n',
        'other model: the record has no result for the call order "coffee" of step 1\n    /params: "tea" → "coffee"\n',
    ],
    "90_mcp_both_sides.py": [
        'Asked: May the tool order run with these arguments? {"name":"tea","pieces":9}',
        "shop_look gave {'name': 'tea', 'pieces': 3}",
        "shop_look failed with {'type': 'mcp-tool-error', 'tool': 'look'",
        "shop_order gave 9 of tea are on their way",
        "Answer: There are 3 packs of tea",
    ],
    "95_a_git_server_and_a_local_model.py": [
        "git_log {'repo_path': '.', 'max_count': 2}",
        "  | Message: Bake four loaves",
        "  | Message: Add the oven",
        "Steps: 2. Answer: ",
    ],
    "96_tools_by_mode.py": [
        "  mode sort, tools sort_letter; called sort_letter {'kind': 'order'}\n",
        "  mode order, tools find_order; called find_order {'number': 4711}\n  -> Your order: two loaves.\n",
        "  mode complaint, tools refund; called refund {'item': 'bread'}\n",
        "  mode question, tools opening_hours price; called opening_hours {'day': 'Sunday'}\n  -> Sunday: 9 to 11.\n",
        "Sent: 5. Mode: sort.",
    ],
    "97_basket.py": [
        "Step 1: basket {}, tools look change order\n",
        "Step 2: basket {}, tools change order\n    weary disables look\n",
        "    change add {'name': 'mugs', 'pieces': 9}: {'error': 'there are 2'}\n",
        "    change remove {'name': 'mugs'}: IT IS OUT\n",
        "Step 3: basket {'tea': 3}, tools change order\n    weary disables look\n    filled reminds of <order>\n",
        "    order {}: waits\n    change add {'name': 'mugs', 'pieces': 1}: it is in\n",
        "pending: basket {'tea': 3, 'mugs': 1}, looks 2\nAnother process goes on:\n  Waiting: order.\n",
        "  The van is loaded with {'tea': 3}.\n  Step 1: basket {'mugs': 1}, tools change order\n",
        "done: basket {'mugs': 1}, looks 2\nAnother process goes on:\n  Waiting: nothing.\n  Step 1: basket",
        "    says You are welcome.\n  done: basket {'mugs': 1}, looks 2\n",
    ],
    "98_one_program_five_ways.py": [
        "in process: Two teas are paid; there is no coffee. Paid 500 cents in this process.\ndurable: Two teas",
        "on a cluster: Two teas are paid; there is no coffee. Paid 500 cents in a worker.\n",
        "durable, on a cluster: Two teas are paid; there is no coffee. Paid 500 cents in a worker.\nwith traces: Two",
        "durable, on a queue: Two teas are paid; there is no coffee. Paid 500 cents in a worker.\n  invoke_agent",
        "  invoke_agent clerk\n    step\n      chat scripted\n      execute_tool price\n      execute_tool price\n",
    ],
    "99_long_conversation.py": [
        "dragons: 1000 pages for the program, 4 messages, breaks: [None, None]\n",
        "maps: 1000 pages for the program, 20 messages, breaks: [None, 'compaction']\n",
        "requests: at most ",
        "The memory is empty, and the store has removed its results.\n",
    ],
    "files_agent.py": [
        "read_text_file: todo.txt says: Bake four loaves.\nread_text_file: may hold secrets: keys.txt\nanswer: ",
    ],
    "ui_scenarios.py": [
        "round\ntool-error\ninvalid-input\npreliminary\ndata-parts\nstream-error\nclient-tool\napproval\nhttp-error\n",
    ],
}

BESIDE = ROOT / "docs/explanation/beside-pydantic-ai.md"
DESKS = (ROOT / "examples/45_order_desk.py", ROOT / "examples/beside/order_desk_pydantic_ai.py")
PROGRAM = """
import runpy, sys
def offline(event, arguments):
    address = arguments[0] if event == "socket.getaddrinfo" else arguments[1][0] if event == "socket.connect" else ""
    assert address in ("", None, "127.0.0.1"), (event, address)
sys.addaudithook(offline)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_every_example_is_known_here() -> None:
    """There is no example whose output nobody looks at."""
    assert [example.name for example in EXAMPLES] == sorted(SAID)


@pytest.mark.parametrize("example", in_tiers(EXAMPLES), ids=lambda path: path.name)
def test_an_example_runs_offline_and_says_what_it_promises(example: Path, tmp_path: Path) -> None:
    """It ends well with no network but loopback, prints each line that it is there to show, and nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(example.parent)])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in SAID[example.name] if line not in done.stdout] == []
    assert list(tmp_path.iterdir()) == []


def _code_lines(text: str) -> int:
    """The lines that are no blank line, no comment, no docstring and no import."""
    module = ast.parse(text)
    nodes = list(ast.walk(module))
    docs = [
        node.body[0] for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
    ]
    docs += [node.body[0] for node in nodes if isinstance(node, ast.AsyncFunctionDef)]
    left: list[ast.stmt] = [one for one in docs if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
    left += [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    skipped = {line for node in left for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for line, code in lines if code.strip() and not code.strip().startswith("#") and line not in skipped)


def test_the_order_desk_is_short_and_the_page_beside_it_counts_right() -> None:
    """At most 160 lines; the page has the counts of both programs, and what it shows of them stands in them."""
    page = BESIDE.read_text(encoding="utf-8")
    ours, theirs = (desk.read_text(encoding="utf-8") for desk in DESKS)
    shown = re.findall(r'^```python title="(\w[^"\n]*)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)

    assert len(ours.splitlines()) <= 160
    for desk, text in zip(DESKS, (ours, theirs), strict=True):
        assert re.search(rf"{desk.name}` \| {len(text.splitlines())} \| {_code_lines(text)} \|", page)
    assert len(shown) == 6
    assert [code for title, code in shown if code not in (ours if title == "fxai" else theirs)] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("migrate-from-*.md")), ids=lambda path: path.name)
def test_a_page_about_another_library_shows_both_programs(page: Path) -> None:
    """Each block with the title of a file is in this file, and the page shows a program of ours and a rival's."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r'^```\w+ title="(examples/[^"\n]*)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)

    assert {title.startswith("examples/beside/") for title, _ in shown} == {True, False}
    assert [code for title, code in shown if code not in (ROOT / title).read_text(encoding="utf-8")] == []
