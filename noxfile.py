"""The checks of this project, one session for each. `nox` runs four sessions, and `nox --list` shows the others."""

from __future__ import annotations

import re
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "levels", "types", "tests"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13"]
PROJECT = nox.project.load_toml("pyproject.toml")


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Check the style of every file."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python="3.11")
def levels(session: nox.Session) -> None:
    """Check that every package imports only packages of lower levels."""
    session.install("-e", ".[dev]")
    session.run("lint-imports", "--no-cache")
    session.run("pytest", "tests/architecture", *session.posargs)


@nox.session(python="3.11")
def types(session: nox.Session) -> None:
    """Check that both type checkers accept every right program and refuse every wrong one, on two Python versions."""
    session.install("-e", ".[dev-servers]")
    session.run("pytest", "-m", "", "tests/typing", *session.posargs)
    session.run("mypy", "--python-version", "3.14", "fxai", "tests", "noxfile.py")
    session.run("pyright", "--pythonversion", "3.14")


@nox.session(python="3.11")
def checkers(session: nox.Session) -> None:
    """Report what four more type checkers miss in the acceptance programs, and what they refuse without reason."""
    session.install("-e", ".[all]", "basedpyright==1.40.2", "zuban==0.10.2", "ty==0.0.107", "pyrefly==1.4.1")
    session.run("python", "-m", "tests.kit.other_checkers", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the quick tests on each Python version, on asyncio and on trio."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-n", "auto", "--durations=10", *session.posargs)


@nox.session(python=PYTHONS)
def slow(session: nox.Session) -> None:
    """Run the slow tests, and each law with more examples. The session installs databases and servers."""
    session.install("-e", ".[dev-servers]")
    options = ("-m", "slow or law", "--hypothesis-profile=thorough", "--durations=10")
    session.run("pytest", "-n", "auto", *options, *session.posargs)


@nox.session(python="3.11")
def search(session: nox.Session) -> None:
    """Run each law with new random examples."""
    session.install("-e", ".[dev-servers]")
    options = ("-m", "law", "--hypothesis-profile=search", "--timeout=3600")
    session.run("pytest", "-n", "auto", *options, *session.posargs)


@nox.session(python="3.11")
def docs(session: nox.Session) -> None:
    """Build the pages. Fail on a warning, a broken link, an unnamed field, or a search without a page."""
    session.install("-e", ".", *nox.project.dependency_groups(PROJECT, "docs"))
    session.run("zensical", "build", "--clean", "--strict")
    session.run("python", "-m", "tests.kit.site", "site")


@nox.session(python="3.11")
def extras(session: nox.Session) -> None:
    """Compare the cost of each extra in the README with new installations."""
    session.install("uv")
    session.run("python", "-m", "tests.kit.extra_sizes", "--check", *session.posargs)


@nox.session(python="3.11")
def peers(session: nox.Session) -> None:
    """Measure the packages and the size of an installation of fxai and of other libraries."""
    session.install("uv")
    session.run("python", "-m", "tests.kit.peer_costs", *session.posargs)


NPM_RIVALS = ("ai@6.0.326", "zod@4.6.7", "effect@4.1.0", "tsx@4.23.15")


@nox.session(python="3.11")
def beside(session: nox.Session) -> None:
    """Run the programs of other libraries, and check that each prints the same as ours. The session needs npm."""
    rivals = ("pydantic-ai-slim>=2.68,<3", "langgraph==1.2.24", "langchain-core==1.8.3", "openai-agents==0.24.0")
    session.install("-e", ".", "mypy", "pyright[nodejs]", *rivals)
    programs = [str(path) for path in sorted(Path("examples/beside").glob("*.py"))]
    session.run("mypy", "--strict", "--config-file", "", *programs)
    session.run("pyright", "--project", "examples/beside", "examples/beside/order_desk_pydantic_ai.py")
    home = Path(session.create_tmp()).absolute()
    session.run("npm", "install", "--prefix", str(home), *NPM_RIVALS, external=True)
    for program in sorted(path for path in Path("examples/beside").iterdir() if path.suffix in (".py", ".mjs", ".mts")):
        (ours,) = Path("examples").glob(f"[0-9]*_{'_'.join(program.name.split('_')[:2])}.py")
        command = ["python", str(program)]
        if program.suffix != ".py":
            copied = home / program.name
            copied.write_bytes(program.read_bytes())
            command = [str(home / "node_modules/.bin/tsx"), str(copied)]
        outputs = [
            session.run("python", str(ours), silent=True),
            session.run(*command, silent=True, external=command[0] != "python"),
        ]
        if outputs[0] != outputs[1]:
            session.error(f"{program} does not print the same: {outputs}")


@nox.session(python="3.11")
def facts(session: nox.Session) -> None:
    """Compare the tables of model facts with the newest public packages. The session needs npm."""
    session.install("-e", ".", "httpx2", "pydantic-ai-slim", "genai-prices", "anthropic", "openai")
    # Only their data files are read, so their dependencies are not needed.
    session.install("--no-deps", "litellm", "langchain-anthropic", "langchain-openai")
    home = Path(session.create_tmp()).absolute()
    catalogs = ("@ai-sdk/anthropic@latest", "@ai-sdk/openai@latest")
    session.run("npm", "install", "--prefix", str(home), *catalogs, external=True)
    script = home / "catalogs.mjs"
    script.write_bytes(Path("tests/kit/ai_sdk_catalogs.mjs").read_bytes())
    printed = session.run("node", str(script), external=True, silent=True)
    (home / "catalogs.json").write_text(str(printed), encoding="utf-8")
    session.run("python", "-m", "tests.kit.catalogs", str(home / "catalogs.json"), *session.posargs)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Run the tests with the oldest dependencies that the package allows."""
    requirements: list[str] = PROJECT["project"]["dependencies"]
    session.install("-e", ".[dev-servers]", *(re.sub(r">=([^,]+).*", r"==\1", one) for one in requirements))
    session.run("pytest", "-n", "auto", "-m", "", "--deselect", "tests/typing", *session.posargs)


@nox.session(python="3.11")
def load(session: nox.Session) -> None:
    """Test a chat application with two hundred clients at once for a minute."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.kit.chat_load", *session.posargs)


@nox.session(python="3.11")
def kills(session: nox.Session) -> None:
    """Kill durable runs on a cluster and on queues at random moments, and check that each of the 500 runs ends."""
    session.install("-e", ".[dev-servers]")
    there = [f"tests/integration/distributed/test_{where}_kill.py" for where in ("durable", "queue")]
    options = ("-m", "slow", *session.posargs)
    session.run("pytest", "tests/integration/durable", *there, *options, env={"FXAI_KILLED_RUNS": "100"})


@nox.session(python="3.11")
def traces(session: nox.Session) -> None:
    """Check that Arize Phoenix reads our traces correctly. The session installs Phoenix, which has 0.8 GB."""
    session.install("-e", ".[dev-servers]")
    phoenix = Path(session.create_tmp()).absolute() / "phoenix"
    session.run("python", "-m", "venv", str(phoenix))
    session.run(str(phoenix / "bin/pip"), "install", "arize-phoenix>=20.26,<21", external=True)
    session.run("python", "-m", "tests.kit.phoenix_traces", "--phoenix", str(phoenix / "bin/python"), *session.posargs)


@nox.session(python="3.11")
def wheel(session: nox.Session) -> None:
    """Test the published package outside this folder."""
    built = Path(session.create_tmp()).absolute()
    session.install("build", "twine")
    session.run("python", "-m", "build", "--outdir", str(built), ".")
    archives = [str(path) for path in built.iterdir()]
    session.run("twine", "check", "--strict", *archives)
    session.install("--force-reinstall", "--no-deps", *(name for name in archives if name.endswith(".whl")))
    session.install("fxai", "pytest")
    session.chdir(built)
    session.run(
        "python",
        "-c",
        "from importlib.resources import files; home = files('fxai');"
        "assert all((home / name).is_file() for name in ['py.typed', 'ui/static/index.html', 'ui/static/app.js'])",
    )
    session.run("fxai", "--help")
    session.run("python", "-m", "fxai", "--version")


@nox.session(python="3.11")
def bench(session: nox.Session) -> None:
    """Compare the costs with rivals, each in its own environment. `-- --compare` prints what became worse."""
    session.install("-e", ".[dev-servers]")
    session.run("python", "-m", "tests.benchmarks.rivals", *session.posargs)


@nox.session(python="3.11")
def costs(session: nox.Session) -> None:
    """Measure the costs beside a program written by hand."""
    session.install("-e", ".[dev-servers]")
    session.run("python", "-m", "tests.benchmarks", *session.posargs)


@nox.session(python="3.11")
def mutants(session: nox.Session) -> None:
    """Check that the tests find small faults in the package. Pass options after `--`, such as `--package tools`."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.mutation", *session.posargs)


@nox.session(python="3.11")
def measures(session: nox.Session) -> None:
    """Print the numbers of modules, lines, and hops beside their limits. `--path` prints the hops."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.kit.measures", *session.posargs)
