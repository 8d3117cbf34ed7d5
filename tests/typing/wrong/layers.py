"""Layers of other services, with unmet needs, and used as something else."""

from __future__ import annotations

from fxai import Layer, Tag, fx, runtime
from tests.typing.desk import DATABASE, DESK, SEARCH, Database, Lost, Mailer, MyDatabase, MyMailer, on_search, rows


class ApiKey(Tag[str]):
    """A key."""


mailer = Layer.succeed(Mailer, MyMailer())

fx.run(rows(1).provide(MyDatabase()))  # wrong: a service is not a layer
fx.run(rows(1).provide(Database))  # wrong: a class is not a layer
fx.run(rows(1).provide(mailer))  # wrong: a mailer is not a database
fx.run(rows(1).provide([DATABASE]))  # wrong: a list is not a layer
fx.run(rows(1).provide(DATABASE, mailer))  # wrong: two layers are `a | b`
fx.run(rows(1).provide(lambda: DATABASE))  # wrong: a function is not a layer
Layer.succeed(MyDatabase())  # wrong: the key is missing
Layer.succeed(Database, MyDatabase)  # wrong: a class for an object
Layer.succeed(Database, fx.succeed(MyDatabase()))  # wrong: an effect for an object
Layer.succeed(ApiKey, 3)  # wrong: the key is a string
Layer.sync(Database, MyDatabase())  # wrong: an object for a function
Layer.sync(Database, MyMailer)  # wrong: a mailer is not a database
Layer.sync(Database, lambda: fx.succeed(MyDatabase()))  # wrong: an effect for an object
Layer.effect(Database, MyDatabase())  # wrong: an object for an effect
Layer.effect(ApiKey, fx.succeed(3))  # wrong: the key is a string
fails: Layer[Database] = Layer.effect(Database, rows(1).as_(MyDatabase()))  # wrong: it can fail
needs: Layer[Database, Lost] = Layer.effect(Database, rows(1).as_(MyDatabase()))  # wrong: it needs a database
both: Layer[Database | Mailer] = DATABASE  # wrong: the mailer is missing
DATABASE | MyMailer()  # wrong: a service is not a layer
DATABASE & mailer  # wrong: it is `|`
Layer.merge_all([DATABASE, mailer])  # wrong: one by one
Layer.unwrap(fx.succeed(MyDatabase()))  # wrong: a service is not a layer
Layer.suspend(DATABASE)  # wrong: a layer for a function
Layer.effect(Database, fx.fail(Lost(1))).retry(3)  # wrong: a number is not a schedule
fx.run(DATABASE)  # wrong: a layer is not an effect
fx.run(DESK.to_layer(SEARCH.handler(on_search)))  # wrong: a handler is missing
opened = fx.acquire_release(fx.sync(MyDatabase), lambda _: fx.sync(lambda: fx.succeed(1)))  # wrong: nothing closes it
runtime(MyDatabase())  # wrong: a service is not a layer
