// Holds a conversation as a page does, with the AI SDK's own client: `useChat` in a React root, or the class of a version.
// Arguments: the folder `node_modules`, the client (useChat, ai5, ai6, ai7). Standard input: {url, id, body?, messages?, steps}.
// A step is a list: its name, and what it is given. Standard output: {messages, status, error, requests, outputs, data}.
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';

const [modules, client] = process.argv.slice(2);
const read = path => JSON.parse(readFileSync(path, 'utf8'));
const load = async name => {
  const home = join(modules, ...name.split('/'));
  const about = read(join(home, 'package.json'));
  const entry = about.exports?.['.']?.import ?? about.module ?? about.main;
  const path = typeof entry === 'string' ? entry : entry.default;
  return import(pathToFileURL(join(home, path)).href);
};

const { url, id, body, messages = [], steps } = JSON.parse(readFileSync(0, 'utf8'));
const ai = await load(client === 'useChat' ? 'ai' : client);
const pause = () => new Promise(done => setTimeout(done, 10));
const until = async (what, test) => {
  const end = Date.now() + 20000;
  while (!test()) {
    if (Date.now() > end) throw new Error(`waited for: ${what}`);
    await pause();
  }
};

// What is sent, and what is seen on the way.
const requests = [];
const record = async (target, init) => {
  const request = {
    method: init?.method ?? 'GET',
    path: new URL(target).pathname,
    body: init?.body ? JSON.parse(init.body) : null,
  };
  requests.push(request);
  const response = await fetch(target, init);
  request.status = response.status;
  request.protocol = response.headers.get('x-vercel-ai-ui-message-stream');
  return response;
};
const outputs = [];
const note = seen => {
  for (const part of seen.at(-1)?.parts ?? []) {
    const line = JSON.stringify([part.toolCallId, part.output, part.preliminary ?? false]);
    if (part.output !== undefined && outputs.at(-1) !== line) outputs.push(line);
  }
};
const data = [];
let answers = 0;
const options = {
  id,
  messages,
  transport: new ai.DefaultChatTransport({ api: `${url}/api/chat`, body, fetch: record }),
  onData: part => data.push(part),
  onFinish: () => { answers += 1; },
  sendAutomaticallyWhen: given =>
    ai.lastAssistantMessageIsCompleteWithToolCalls(given) ||
    (ai.lastAssistantMessageIsCompleteWithApprovalResponses?.(given) ?? false),
};

// The chat as the class has it.
const makeChat = () => {
  const copy = value => structuredClone(value);
  const state = {
    status: 'ready',
    error: undefined,
    messages: copy(messages),
    pushMessage: message => { state.messages = [...state.messages, message]; },
    popMessage: () => { state.messages = state.messages.slice(0, -1); },
    replaceMessage: (index, message) => {
      state.messages = [...state.messages.slice(0, index), copy(message), ...state.messages.slice(index + 1)];
      note(state.messages);
    },
    snapshot: copy,
  };
  class Chat extends ai.AbstractChat {}
  const { messages: _, ...rest } = options;
  const chat = new Chat({ ...rest, state });
  return () => chat;
};

// The chat as a component of React has it.
const mountHook = async () => {
  const { JSDOM } = await load('jsdom');
  const dom = new JSDOM('<div id="root"></div>', { url });
  globalThis.window = dom.window;
  globalThis.document = dom.window.document;
  const { createElement } = (await load('react')).default;
  const { createRoot } = (await import(pathToFileURL(join(modules, 'react-dom', 'client.js')).href)).default;
  const { useChat } = await load('@ai-sdk/react');
  let current;
  const Page = () => {
    current = useChat(options);
    note(current.messages);
    return createElement('p', null, current.status);
  };
  createRoot(dom.window.document.getElementById('root')).render(createElement(Page));
  await until('the page', () => current);
  return () => current;
};

const chat = client === 'useChat' ? await mountHook() : makeChat();
const last = () => chat().messages.at(-1);
const parts = () => last()?.parts ?? [];
const written = () => parts().map(part => part.text ?? '').join('');
const isOver = () => ['ready', 'error'].includes(chat().status);
// React shows what has come a moment after its stream has ended.
const lastOfUser = async () => {
  const find = () => chat().messages.findLast(message => message.role === 'user');
  await until('a message of the user', find);
  return find().id;
};
const call = async state => {
  const find = () => parts().find(one => one.state === state);
  await until(`a call that is ${state}`, find);
  return find();
};

const ways = {
  send: text => chat().sendMessage({ text }),
  begin: text => void chat().sendMessage({ text }),
  edit: async text => chat().sendMessage({ text, messageId: await lastOfUser() }),
  regenerate: () => chat().regenerate(),
  resume: () => chat().resumeStream(),
  approve: async (approved, reason) => {
    const part = await call('approval-requested');
    return chat().addToolApprovalResponse({ id: part.approval.id, approved, reason });
  },
  output: async value => {
    const part = await call('input-available');
    const tool = ai.getToolName?.(part) ?? part.type.slice('tool-'.length);
    return chat().addToolOutput({ tool, toolCallId: part.toolCallId, output: value });
  },
  read: text => until(text, () => written().includes(text)),
  stop: () => chat().stop(),
  post: path => record(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }),
};
for (const [name, ...given] of steps) {
  const before = answers;
  await ways[name](...given);
  if (name === 'approve' || name === 'output') await until('an answer', () => answers > before);
  if (name !== 'begin' && name !== 'read' && name !== 'post') await until(`the end of ${name}`, isOver);
}
await pause();
const { status, error } = chat();
const told = error ? String(error.message ?? error) : null;
const seen = { messages: chat().messages, status, error: told, requests, outputs: outputs.map(JSON.parse), data };
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
