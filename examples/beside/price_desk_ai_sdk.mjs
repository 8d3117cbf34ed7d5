// The price desk of `46_price_desk.py` in Vercel's AI SDK.
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

const prices = { tea: 250 };

const makeTools = (cents) => ({
  look_up: tool({
    description: "Returns the price of an item in cents.",
    inputSchema: z.object({ item: z.string() }),
    execute: async ({ item }) => {
      if (!(item in cents)) throw new Error(`no price for ${item}`);
      return cents[item];
    },
  }),
});

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const say = (text) => ({ content: [{ type: "text", text }], finishReason: { unified: "stop" }, usage, warnings: [] });
const calls = ["tea", "milk"].map((item) => ({
  type: "tool-call", toolCallId: item, toolName: "look_up", input: JSON.stringify({ item }),
}));
const model = new MockLanguageModelV3({
  doGenerate: [
    { content: calls, finishReason: { unified: "tool-calls" }, usage, warnings: [] },
    say("Tea costs 250 cents. We have no milk."),
    say("Two teas cost 500 cents."),
  ],
});

const ask = (messages) =>
  generateText({
    model, messages, tools: makeTools(prices), stopWhen: stepCountIs(10), system: "Answer questions about prices.",
  });

const messages = [{ role: "user", content: "What do tea and milk cost?" }];
const first = await ask(messages);
const results = first.steps[0].content.filter((part) => part.type === "tool-result" || part.type === "tool-error");
console.log(["results:", ...results.map((part) => part.output ?? part.error.message)].join("\n  "));
console.log("answer:", first.text);
const second = await ask([...messages, ...first.response.messages, { role: "user", content: "And two teas?" }]);
console.log("answer:", second.text);
