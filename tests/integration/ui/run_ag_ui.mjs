// Runs a conversation as the client of AG-UI does, and prints after each run what the client has then.
// Arguments: the folder `node_modules`, the address. Standard input: a JSON array of runs, each an object of
// `threadId`, and perhaps `messages` to add, `forget` (begin as a new client), `drop` (messages to drop at the end),
// `answer` (the payload for each interrupt), `result` (of each call that waits) and `forwardedProps`.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';

const [modules, url] = process.argv.slice(2);
const entry = join(modules, '@ag-ui', 'client', 'dist', 'index.mjs');
const { HttpAgent } = await import(pathToFileURL(entry).href);

let agent;
for (const run of JSON.parse(readFileSync(0, 'utf8'))) {
  if (!agent || run.forget) agent = new HttpAgent({ url, threadId: run.threadId });
  if (run.drop) agent.messages = agent.messages.slice(0, -run.drop);
  for (const message of run.messages ?? []) agent.addMessage(message);
  for (const id of run.result === undefined ? [] : agent.waiting) {
    agent.addMessage({ id: `result-${id}`, role: 'tool', toolCallId: id, content: run.result });
  }
  const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: 'resolved', payload: run.answer }));
  const events = [];
  let error;
  const watch = {
    onEvent: ({ event }) => void events.push(event),
    onRunFinishedEvent: ({ pendingToolCallIds }) => void (agent.waiting = pendingToolCallIds ?? []),
  };
  const asked = { forwardedProps: run.forwardedProps, ...(run.answer === undefined ? {} : { resume }) };
  await agent.runAgent(asked, watch).catch(failure => void (error = String(failure?.message ?? failure)));
  const { messages, state, pendingInterrupts } = agent;
  process.stdout.write(`${JSON.stringify({ messages, state, pendingInterrupts, events, error })}\n`);
}
