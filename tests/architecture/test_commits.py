"""The commits of this project, and the rules that they must satisfy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.commits import NoHistoryError, broken_rules, commits_since, run_git
from tests.kit.source import ROOT

REASON = "The job ran again after a crash, because no row recorded it."
CONFIG = "[user]\n    name = fxai\n    email = dev@fxai.invalid\n"
CODE = "".join(f"line_{number} = {number}\n" for number in range(5))


class Repository:
    """A new repository with one commit, which is the base."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        run_git(root, "init", "--quiet")
        self.base = self.commit("Start", {"README.md": "A project.\n"})

    def commit(self, message: str, files: dict[str, str | bytes]) -> str:
        """Write files, commit them, and return the hash of the commit."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        run_git(self.root, "add", "--all")
        run_git(self.root, "commit", "--quiet", "--allow-empty", "-m", message)
        return run_git(self.root, "rev-parse", "HEAD").strip()

    def problems(self) -> list[str]:
        """Return the problems of the commits after the base, without hashes and subjects."""
        found = [problem for commit in commits_since(self.root, self.base) for problem in broken_rules(commit)]
        return [problem.rpartition("': ")[2].partition(".")[0] for problem in found]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Create a repository in an empty directory."""
    monkeypatch.delenv("FXAI_BASE", raising=False)
    (tmp_path / "gitconfig").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    try:
        return Repository(tmp_path / "project")
    except NoHistoryError as error:
        pytest.skip(str(error))


def test_every_commit_satisfies_the_rules() -> None:
    """Every commit after the base has a short subject, and a body unless it is trivial."""
    try:
        commits = commits_since(ROOT)
    except NoHistoryError as error:
        pytest.skip(f"No commit was checked: {error}.")

    assert [problem for commit in commits for problem in broken_rules(commit)] == []


@pytest.mark.parametrize(("characters", "problems"), [(72, []), (73, ["the subject has 73 characters"])])
def test_a_subject_has_at_most_72_characters(repository: Repository, characters: int, problems: list[str]) -> None:
    """A subject of 72 characters passes, and a subject of 73 characters fails."""
    repository.commit("é" * characters, {})

    assert repository.problems() == problems


@pytest.mark.parametrize(
    "message",
    [
        "Add a job",
        "Add a job\n\nCo-authored-by: Ada <ada@fxai.invalid>\nRefs: 25",
        "Add a job\n\nSee the previous commit.",
    ],
    ids=["no body", "trailers only", "four words"],
)
def test_a_change_of_code_needs_a_body(repository: Repository, message: str) -> None:
    """Five lines of code without a reason fail."""
    repository.commit(message, {"job.py": CODE})

    assert repository.problems() == ["the body is missing"]


@pytest.mark.parametrize(
    ("message", "files"),
    [
        (f"Add a job\n\n{REASON}", {"job.py": CODE}),
        (f"Add a job\n\n{REASON}\n\nRefs: 25", {"job.py": CODE}),
        ("Correct a typo", {"README.md": "The project.\nIt is new.\nIt runs.\n"}),
        ("Record figures", {"tests/unit/größe.json": CODE}),
    ],
    ids=["body", "body and trailer", "four lines", "data of tests"],
)
def test_a_reason_or_a_trivial_change_passes(
    repository: Repository, message: str, files: dict[str, str | bytes]
) -> None:
    """A commit passes with a body, with at most four changed lines, or with recorded data only."""
    repository.commit(message, files)

    assert repository.problems() == []


def test_a_moved_or_binary_file_needs_a_body(repository: Repository) -> None:
    """A rename and a binary file are not trivial, although git reports few lines for them."""
    repository.commit(f"Add a job\n\n{REASON}", {"job.py": CODE})
    (repository.root / "job.py").rename(repository.root / "task.py")
    repository.commit("Move the job", {})
    repository.commit("Add a picture", {"picture.png": b"\x00\x01"})

    assert repository.problems() == ["the body is missing"] * 2


def test_a_merge_needs_no_body(repository: Repository) -> None:
    """A merge passes without a body."""
    main = run_git(repository.root, "branch", "--show-current").strip()
    run_git(repository.root, "checkout", "--quiet", "-b", "job")
    repository.commit(f"Add a job\n\n{REASON}", {"job.py": CODE})
    run_git(repository.root, "checkout", "--quiet", main)
    repository.commit("Correct a typo", {"README.md": "The project.\n"})
    run_git(repository.root, "merge", "--quiet", "--no-commit", "job")
    repository.commit("Merge the job", {})

    assert len(commits_since(repository.root, repository.base)) == 3
    assert repository.problems() == []


def test_the_environment_names_another_base(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """`FXAI_BASE` replaces the recorded base, and an unknown commit is an error."""
    repository.commit("x" * 80, {})
    monkeypatch.setenv("FXAI_BASE", "HEAD")

    assert commits_since(repository.root) == []

    monkeypatch.setenv("FXAI_BASE", "unknown")
    with pytest.raises(ValueError, match="FXAI_BASE must name a commit, got 'unknown'"):
        commits_since(repository.root)


def test_a_repository_without_the_base_has_no_history(repository: Repository) -> None:
    """A repository that started from a copy of the files has none of the commits, and the message names the base."""
    with pytest.raises(NoHistoryError, match="the repository lacks the base 635474a"):
        commits_since(repository.root)


def test_a_shallow_clone_has_no_history(repository: Repository, tmp_path: Path) -> None:
    """A shallow clone without the base is not an error."""
    repository.commit("Correct a typo", {"README.md": "The project.\n"})
    run_git(tmp_path, "clone", "--quiet", "--depth", "1", repository.root.as_uri(), "shallow")

    with pytest.raises(NoHistoryError, match="the shallow clone lacks the base"):
        commits_since(tmp_path / "shallow", repository.base)


def test_a_directory_without_a_repository_has_no_history(repository: Repository, tmp_path: Path) -> None:
    """An archive has no history, also if it is inside another repository."""
    (repository.root / "archive").mkdir()

    with pytest.raises(NoHistoryError, match="not a git repository"):
        commits_since(tmp_path)
    with pytest.raises(NoHistoryError, match="is not the top of a git repository"):
        commits_since(repository.root / "archive")


def test_a_refusal_of_git_is_reported(repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message has the cause if git is missing or refuses the repository."""
    (repository.root / ".git" / "config").write_text("[broken", encoding="utf-8")
    with pytest.raises(NoHistoryError, match="bad config"):
        commits_since(repository.root)

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoHistoryError, match="git is not installed"):
        commits_since(repository.root)
