"""The folder of the example agent: what it reads, and that it never leaves its root or shows a secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from returns.result import Failure, Success

from examples.files_agent import Folder, folder
from fxai.effects import Effect, fx
from tests.kit.every import every


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a text, a folder, a picture, and a secret beside it."""
    here = tmp_path / "root"
    (here / "docs").mkdir(parents=True)
    (here / ".hidden").touch()
    (here / "notes.txt").write_text("eins zwei\ndrei\n", encoding="utf-8")
    (here / "logo.png").write_bytes(b"\x89PNG\x00\xff")
    (here / "zero.txt").write_bytes(b"a\x00b")
    (tmp_path / "secret.txt").write_text("secret")
    (here / "out").symlink_to(tmp_path)
    (here / "circle").symlink_to(here / "circle")
    os.mkfifo(here / "pipe")
    return here


def text(root: Path, path: str, *, secrets: bool = False) -> Any:
    """What the folder gives for a file."""
    here = folder(root, secrets=secrets)
    asked: Effect[str, str] = fx.service(Folder).flat_map(lambda found: found.text(path)).provide(here)
    return fx.run_result(asked)


def names(root: Path, path: str) -> Any:
    """What the folder gives for a folder."""
    asked: Effect[tuple[str, ...], str] = (
        fx.service(Folder).flat_map(lambda here: here.names(path)).provide(folder(root))
    )
    return fx.run_result(asked)


def test_it_reads_texts_and_lists_names(root: Path) -> None:
    """A text as it is; names sorted, folders with a slash, hidden ones left out."""
    assert text(root, "notes.txt") == Success("eins zwei\ndrei\n")
    assert text(root, "docs/../notes.txt") == Success("eins zwei\ndrei\n")
    assert names(root, ".") == Success(("circle", "docs/", "logo.png", "notes.txt", "out/", "pipe", "zero.txt"))
    assert names(root, "docs") == names(root, str(root / "docs")) == Success(())


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing.txt", "no such file"),
        ("notes.txt/more", "no such file"),
        ("../secret.txt", "outside of this folder"),
        ("out/secret.txt", "outside of this folder"),
        ("/etc/passwd", "outside of this folder"),
        ("docs", "no file"),
        ("", "no file"),
        ("pipe", "no file"),
        ("logo.png", "no text file"),
        ("zero.txt", "no text file"),
        ("nul\0.txt", "no such file"),
        ("x" * 5000, "no such file"),
        ("circle", "no such file"),
    ],
)
def test_what_is_no_text_in_here_is_refused(root: Path, path: str, problem: str) -> None:
    """Whatever a model may ask for, it is a typed failure with the path as it was asked for."""
    assert text(root, path) == Failure(f"{problem}: {path}")


def test_a_large_file_is_refused(root: Path) -> None:
    """A file of more than 2 MB is not read."""
    (root / "large.txt").write_text("x" * 2_100_000)

    assert text(root, "large.txt") == Failure("larger than 2 MB: large.txt")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(root: Path) -> None:
    """What the system does not let us read is a typed failure."""
    (root / "notes.txt").chmod(0)

    assert text(root, "notes.txt") == Failure("not readable: notes.txt")


def test_what_is_no_folder_is_refused(root: Path) -> None:
    """Names are only given of folders in here."""
    assert names(root, "notes.txt") == Failure("no folder: notes.txt")
    assert names(root, "nowhere") == Failure("no such file: nowhere")
    assert names(root, "out") == Failure("outside of this folder: out")


# ---- secrets


SECRETS = [
    ".env",
    ".ENV",
    ".env.local",
    ".env ",
    ".env.",
    "．env",
    ".e\u200bnv",
    "prod.env",
    ".envrc",
    ".git/config",
    ".GIT/config",
    ".git/hooks/notes",
    ".git-credentials",
    ".gitconfig",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".dockercfg",
    ".docker/config.json",
    ".aws/credentials",
    ".aws/config",
    ".ssh/config",
    ".ssh/id_ed25519",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".bash_history",
    ".vault-token",
    "id_rsa",
    "ID_RSA",
    "id_ed25519.bak",
    "server.pem",
    "server.KEY",
    "store.p12",
    "store.pfx",
    "store.jks",
    "vault.kdbx",
    "putty.ppk",
    "secring.gpg",
    "vpn.ovpn",
    "terraform.tfstate",
    "prod.tfvars",
    "credentials",
    "credentials.json",
    "client_secret_1.apps.json",
    "secrets.yaml",
    "secrets/notes.txt",
    "service-account-1.json",
    "api_key.txt",
    "token",
    "access_token.json",
    "passwords.txt",
    "wp-config.php",
    "kubeconfig",
    "auth.json",
    "rclone.conf",
    "sitemanager.xml",
    "server.pem.bak",
    "id_rsa~",
    "#credentials.json#",
    ".env~",
    "secrets.yml.old.1",
    "env.local",
    "env.production",
    "prod.auto.tfvars.json",
    "google-credentials.json",
    "aws-credentials.txt",
    "token.json",
    "private_key.txt",
    "vault_pass.txt",
    "pgpass.conf",
    "ssh_host_ed25519_key",
    "cookies.txt",
    "logins.json",
    "wallet.dat",
    "app-firebase-adminsdk-1.json",
]
SHOWN = [
    ".gitignore",
    ".gitattributes",
    ".github/workflows/ci.yml",
    ".editorconfig",
    ".env.example",
    ".pre-commit-config.yaml",
    ".python-version",
    "id_rsa.pub",
    "tokens.json",
    "token.py",
    "credentials.py",
    "secret_santa.md",
    "environment.yml",
    "keyboard.md",
    "env.py",
    "env.d.ts",
    "ssh_host_rsa_key.pub",
    "cookies.md",
    "private_key.py",
]
TEXTS = [
    f"-----BEGIN {'RSA '}PRIVATE KEY-----\nMII",
    f"-----BEGIN {'OPENSSH '}PRIVATE KEY-----",
    f"-----BEGIN PGP {'PRIVATE'} KEY BLOCK-----",
    f"key: AKIA{'A1' * 8}",
    f"ghp_{'a1' * 18}",
    f"github_pat_{'a1' * 15}",
    f"glpat-{'a1' * 10}",
    f"sk-ant-{'a1' * 15}",
    f"sk-proj-{'a1' * 15}",
    f"xoxb-{'1' * 12}-abc",
    f"AIza{'a1' * 18}",
    f"sk_live_{'a1' * 10}",
    f"npm_{'a1' * 18}",
    f"hf_{'a1' * 17}",
    f"eyJ{'a' * 20}.eyJ{'b' * 20}.{'c' * 20}",
    "DATABASE_URL=postgres://ann:hunter2@db/app",
    "https://oauth2:s3cr3tvalue@git.example.org/x.git",
    "AWS_SECRET_ACCESS_KEY=abcdefgh",
    "export DB_PASSWORD=letmein",
    'password = "hunter2!"',
    "password: hunter22",
    '{"api_key": "0a1b2c3d4e5f"}',
    "Authorization: Bearer 0a1b2c3d4e5f6g7h",
    "//registry.example.org/:_authToken=0a1b2c3d4e5f",
    "x" * 70_000 + f"\nghp_{'a1' * 18}",
    "MYSQL_PASS=letmein1",
    f"machine git.example.org login ann {'password'} letmein",
    f"machine git.example.org\n  login ann\n  {'password'} letmein",
    f"Server=db;User Id=sa;{'Password'}=Pa55w0rd1;Encrypt=yes",
    f"<server><{'password'}>hunter22</{'password'}></server>",
    f"{'Authorization'}: Basic dXNlcjpwYXNzd29yZA==",
    f"ann:$apr1$a1b2c3d4${'e5' * 11}",
    f"root:$6$a1b2c3d4${'e5' * 20}:18000:0:99999:7:::",
    f"https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/{'a1' * 12}",
    f"https://discord.com/api/webhooks/{'1' * 18}/{'a1' * 30}",
    f"bot = 123456789:AA{'a1' * 17}",
    f"SK{'a1' * 16}",
    "é" * (2**15 - 10) + f"AKIA{'A1' * 8}",
    f'{"password"} = "several words"',
    f"{'password'}: 'correct horse battery staple'",
    f"{'password'}: correct horse battery staple",
    f"DB_{'PASSWORD'} = correct horse battery",
    f'SMTP_{"PASS"}="old oak, and you"',
    f'{{"{"password"}": "correct horse battery"}}',
    f"{'passphrase'} := 'seven dogs 1 cat'",
    f'api_{"key"} = "abcd 1234 efgh 5678"',
    f'{"password"} = b"hunter22"',
    f'{"mnemonic"} = "{"witch " * 11}least"',
    f"tool --{'password'} hunter22 --now",
    f"--{'token'}=abc123def",
    f"curl -s -u ann:{'hunter22'} https://example.org",
]
HARMLESS = [
    "the password is asked for",
    "password = getpass()",
    "token = self.token",
    "API_KEY=",
    "API_KEY=your-key-here",
    "API_KEY=${API_KEY}",
    "OPENAI_API_KEY=sk-...",
    'password = "..."',
    "secret: str",
    "max_tokens: 4096",
    "https://example.org:8080/a@b",
    "TOKEN: Final = something",
    "if a.password=b.secret1;",
    "<password>required</password>",
    "<token>{token_1}</token>",
    "the machine asks you to login with a password",
    "grammar:$1$ is the first group, :$2a the second",
    "a Basic authorization is what it takes",
    "TESTS_PASS=true",
    'password: "Enter the password of the account"',
    '"password": "Passwords do not match"',
    'INVALID_PASSWORD = "wrong password, try again"',
    "password: 'Contraseña incorrecta'",
    '"password_hint": "eight letters"',
    "password: str, user: str, count: int",
    "password = user_password or default_password",
    "token: the next one of the stream",
    'secret = "open door"',
    "api_key=api_key, compress=True, retries=3",
    "see --password-file x1.txt",
    "docker run -u user:group1 image",
]


@pytest.mark.slow
@every("path", SECRETS)
def test_a_file_that_may_hold_secrets_by_its_name_is_refused(tmp_path: Path, path: str) -> None:
    """However the name is written, and whatever stands in the file; only where it is allowed it is read."""
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("harmless")
    (tmp_path / "link.txt").symlink_to(file)
    (tmp_path / "sub").mkdir()
    refused = [text(tmp_path, asked) for asked in (path, f"./sub/../{path}", str(file))]

    assert refused == [Failure(f"may hold secrets: {a}") for a in (path, f"./sub/../{path}", str(file))]
    assert text(tmp_path, "link.txt") == Failure("may hold secrets: link.txt")
    assert text(tmp_path, path, secrets=True) == text(tmp_path, "link.txt", secrets=True) == Success("harmless")


@every("path", SHOWN)
def test_what_everybody_publishes_is_read(tmp_path: Path, path: str) -> None:
    """Hidden files that hold no secrets, and names that only sound like it."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("harmless")

    assert text(tmp_path, path) == Success("harmless")


@every("secret", TEXTS)
def test_a_file_in_which_a_secret_stands_is_refused(tmp_path: Path, secret: str) -> None:
    """Whatever it is called, also as a hard link to a file of another name; allowed, it is read."""
    (tmp_path / "notes.txt").write_text(f"one\n{secret}\n")
    (tmp_path / "hard.txt").hardlink_to(tmp_path / "notes.txt")

    assert text(tmp_path, "notes.txt") == Failure("may hold secrets: notes.txt")
    assert text(tmp_path, "hard.txt") == Failure("may hold secrets: hard.txt")
    assert text(tmp_path, "notes.txt", secrets=True) == Success(f"one\n{secret}\n")


@every("said", HARMLESS)
def test_talk_of_secrets_is_no_secret(tmp_path: Path, said: str) -> None:
    """Code, documentation and placeholders are read."""
    (tmp_path / "notes.txt").write_text(f"{said}\n")

    assert text(tmp_path, "notes.txt") == Success(f"{said}\n")


@pytest.mark.slow
def test_the_files_of_this_project_are_read() -> None:
    """Nearly nothing of a whole project is taken for a secret: what is refused are keys that tests have made up."""
    project = Path(__file__).parents[2]
    files = [
        file for part in ("fxai", "docs") for file in (project / part).rglob("*.*") if file.suffix in (".py", ".md")
    ]
    refused = [file for file in files if isinstance(text(project, str(file)), Failure)]

    assert len(files) > 300
    assert len(refused) <= 2
