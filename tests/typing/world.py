"""Services, failures and effects that the right and the wrong programs speak about."""

from __future__ import annotations

from abc import abstractmethod

from fxai.effects import Effect, Gen, Layer, Scope, Service, Tag, fx

__all__ = [
    "API_KEY",
    "CFG",
    "CLOCK",
    "DB",
    "DB_LIVE",
    "LOG",
    "ApiKey",
    "Cfg",
    "CfgFault",
    "Clock",
    "Db",
    "DbFault",
    "Log",
    "LogFault",
    "MyCfg",
    "MyClock",
    "MyDb",
    "MyLog",
    "NetFault",
    "asks_key",
    "asks_time",
    "four",
    "logs",
    "make_db",
    "reads",
    "report",
]


class CfgFault(Exception):
    """A failure of the configuration."""


class DbFault(Exception):
    """A failure of the database, which is unlike the others: it has a code."""

    code: int = 0


class LogFault(Exception):
    """A failure of the log."""


class NetFault(Exception):
    """A failure of the network."""


class Cfg(Service):
    """A service without failures."""

    @abstractmethod
    def url(self) -> str:
        """Where the database is."""


class Db(Service):
    """A service with one kind of failure."""

    @abstractmethod
    def query(self, sql: str) -> Effect[list[str], DbFault]:
        """The rows."""


class Log(Service):
    """A service whose method gives nothing."""

    @abstractmethod
    def info(self, line: str) -> Effect[None, LogFault]:
        """A line more."""


class Clock(Service):
    """A service of plain methods."""

    @abstractmethod
    def now(self) -> float:
        """The time."""


class ApiKey(Tag[str]):
    """A key whose service is a plain string."""


class MyCfg(Cfg):
    """A configuration."""

    def url(self) -> str:
        """A place."""
        return "db://"


class MyLog(Log):
    """A log."""

    def info(self, line: str) -> Effect[None, LogFault]:
        """Nothing is written."""
        return fx.succeed(None)


class MyDb(Db):
    """A database."""

    def __init__(self, url: str) -> None:
        self.location = url

    def query(self, sql: str) -> Effect[list[str], DbFault]:
        """One row."""
        return fx.succeed([self.location + sql])


class MyClock(Clock):
    """A clock."""

    def now(self) -> float:
        """The beginning."""
        return 0.0


reads = fx.service(Db).flat_map(lambda db: db.query("x"))
logs = fx.service(Log).flat_map(lambda log: log.info("x"))
asks_time = fx.service(Clock).map(lambda clock: clock.now())
asks_key = fx.service(ApiKey)
four = reads.flat_map(lambda _: logs.flat_map(lambda _: asks_time.flat_map(lambda _: asks_key)))

DB = Layer.succeed(Db, MyDb(""))
LOG = Layer.succeed(Log, MyLog())
CLOCK = Layer.sync(Clock, MyClock)
API_KEY = Layer.succeed(ApiKey, "k")
CFG = Layer.succeed(Cfg, MyCfg())


@fx.gen
def make_db() -> Gen[MyDb, CfgFault | LogFault, Cfg | Log | Scope]:
    """A database that is opened by two services and closed with a scope."""
    cfg = yield from Cfg
    log = yield from Log
    opened = fx.succeed(MyDb(cfg.url()))
    return (yield from fx.acquire_release(opened, lambda _: log.info("close").or_die()))


DB_LIVE = Layer.scoped(Db, make_db())


@fx.gen
def report(sql: str, copies: int = 1) -> Gen[str, DbFault | LogFault | NetFault, Db | Log | ApiKey]:
    """A program of several services, failures and a default argument."""
    db = yield from Db
    key = yield from fx.service(ApiKey)
    rows = yield from db.query(sql * copies)
    log = yield from Log
    yield from log.info("rows")
    if not rows:
        return (yield from fx.fail(NetFault()))
    return key + rows[0]
