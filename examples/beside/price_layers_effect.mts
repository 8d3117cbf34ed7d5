// The program of `47_price_layers.py` in Effect: services, layers, tagged errors, and a tool.
import { Context, Data, Effect, Layer, Schedule, Schema, Stream } from "effect";
import { Tool, Toolkit } from "effect/ai";

class NoPrice extends Data.TaggedError("NoPrice")<{ readonly item: string }> {}

class Prices extends Context.Service<Prices, {
  readonly cents: (item: string) => Effect.Effect<number, NoPrice>;
}>()("Prices") {}

const listed = (table: Record<string, number>) =>
  Layer.effect(Prices, Effect.gen(function* () {
    yield* Effect.acquireRelease(
      Effect.sync(() => console.log("open")),
      () => Effect.sync(() => console.log("close")),
    );
    return { cents: (item) => item in table ? Effect.succeed(table[item]) : Effect.fail(new NoPrice({ item })) };
  }));

const total = Effect.fn(function* (...items: Array<string>) {
  const prices = yield* Prices;
  const cents = yield* Effect.forEach(items, prices.cents, { concurrency: 2 });
  return cents.reduce((sum, one) => sum + one, 0);
});

const LookUp = Tool.make("look_up", {
  description: "Returns the price of an item in cents.",
  parameters: Schema.Struct({ item: Schema.String }),
  success: Schema.Number,
  failure: Schema.String,
  failureMode: "return",
});
const kit = Toolkit.make(LookUp);
const handlers = kit.toLayer(Effect.gen(function* () {
  const prices = yield* Prices;
  return {
    look_up: ({ item }) => prices.cents(item).pipe(Effect.mapError((error) => `no price for ${error.item}`)),
  };
}));

const program = Effect.gen(function* () {
  console.log("total:", yield* total("tea", "tea"));
  console.log(yield* total("tea", "milk").pipe(
    Effect.map(String),
    Effect.catchTag("NoPrice", (error) => Effect.succeed(`no price for ${error.item}`)),
  ));
  console.log("retried:", yield* total("cup").pipe(Effect.retry(Schedule.recurs(2)), Effect.orElseSucceed(() => 0)));
  const { handle } = yield* kit;
  for (const item of ["tea", "milk"]) {
    const outcomes = yield* handle("look_up", { item }).pipe(Effect.flatMap(Stream.runCollect));
    console.log("tool:", outcomes.at(-1)?.encodedResult);
  }
});

const live = handlers.pipe(Layer.provideMerge(listed({ tea: 250 })));
await Effect.runPromise(program.pipe(Effect.provide(live)));
