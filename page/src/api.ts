// The server: its routes, what they answer, and the streams of answers.

export type Part = { type: string; [name: string]: unknown };
export type Message = { id: string; role: 'user' | 'assistant'; parts: Part[]; metadata?: unknown };
/** When a message joins an answer: at its next step, or after it. */
export type Delivery = 'steer' | 'queue';
export type Chunk = { type: string; [name: string]: unknown };
export type Versions = { index: number; of: number; turns: string[] };
export type Conversation = {
  id: string;
  title: string;
  messages: Message[];
  versions: Record<string, Versions>;
  ended: 'done' | 'pending' | 'failed' | 'stopped' | null;
  running: boolean;
  error: string | null;
};
export type Summary = { id: string; title: string; created: number; changed: number; running: boolean };
export type Info = {
  name: string;
  title: string;
  model: string;
  tools: { name: string; title: string; description: string }[];
  suggestions: string[];
  files: { count: number; bytes: number; types: string[] };
};

/** The server refused a request, or could not be reached (status 0): why, in words for the user. */
export class ServerError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const TOKEN = 'fxai-token';

/** Takes the token out of the address of the page, `#token=…`, so that nobody reads it there. */
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  setToken(decodeURIComponent(found[1] ?? ''));
  history.replaceState(null, '', location.pathname + location.search);
}

export const setToken = (token: string) => sessionStorage.setItem(TOKEN, token);

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.set('authorization', `Bearer ${token}`);
  if (init.body) headers.set('content-type', 'application/json');
  let response: Response;
  try {
    response = await fetch(new URL(path, document.baseURI), { ...init, headers, credentials: 'same-origin' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ServerError(0, 'The server cannot be reached. Is it still running?');
  }
  if (response.ok) return response;
  const text = (await response.text()).slice(0, 500);
  throw new ServerError(response.status, text || `The server answered with the status ${response.status}.`);
}

const json = (method: string, body: unknown): RequestInit => ({ method, body: JSON.stringify(body) });
const chat = (id: string, rest = '') => `api/chat/${encodeURIComponent(id)}${rest}`;

export const info = async (): Promise<Info> => (await request('api/info')).json();
export const list = async (before?: number): Promise<Summary[]> =>
  (await (await request(`api/chat?limit=100${before ? `&before=${before}` : ''}`)).json()).conversations;
export const rename = (id: string, title: string) => request(chat(id), json('PATCH', { title }));
export const remove = (id: string) => request(chat(id), { method: 'DELETE' });
export const stop = (id: string) => request(chat(id, '/stop'), json('POST', {}));
export const choose = async (id: string, turn: string): Promise<Conversation> =>
  (await request(chat(id, '/head'), json('POST', { turn }))).json();
/** Sends a message to the answer that is being written; whether somebody took it. */
export const send = async (id: string, message: Message, delivery: Delivery): Promise<boolean> =>
  (await (await request(chat(id, '/messages'), json('POST', { message, delivery }))).json()).taken;
export const reply = async (id: string, questionId: string, action: string, content: unknown): Promise<boolean> =>
  (await (await request(chat(id, '/answers'), json('POST', { questionId, action, content }))).json()).taken;

/** A conversation; null where there is none of this id. */
export async function load(id: string): Promise<Conversation | null> {
  try {
    return await (await request(chat(id))).json();
  } catch (error) {
    if (error instanceof ServerError && error.status === 404) return null;
    throw error;
  }
}

/** The chunks of an answer that is asked for. */
export async function* ask(body: object): AsyncGenerator<Chunk> {
  yield* chunks(await request('api/chat', json('POST', body)));
}

/** The chunks of the answer that is being written, from its beginning; none where none is. */
export async function* resume(id: string): AsyncGenerator<Chunk> {
  const response = await request(chat(id, '/stream'));
  if (response.status !== 204) yield* chunks(response);
}

/** The events of a stream. One that ends without `[DONE]` was cut off. */
async function* chunks(response: Response): AsyncGenerator<Chunk> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let isDone = false;
  try {
    while (!isDone) {
      const { value, done } = await reader.read();
      if (done) break;
      const events = (rest + value).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const data = event.split('\n').filter(line => line.startsWith('data: ')).map(line => line.slice(6)).join('\n');
        if (data === '[DONE]') isDone = true;
        else if (data) yield JSON.parse(data) as Chunk;
      }
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw error;
  } finally {
    reader.cancel().catch(() => undefined);
  }
  if (!isDone) throw new ServerError(0, 'The connection was lost in the middle of the answer.');
}
