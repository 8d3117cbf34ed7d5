// One conversation: what is said in it, the answer that is being written, and what goes wrong.
import * as api from './api.ts';
import { type Chunk, type Conversation, type Delivery, type Message, type Part, ServerError } from './api.ts';
import { isOpen, MessageBuilder, toolLabel } from './message.ts';

const PAUSES = [300, 1000, 2000, 4000, 8000]; // ms, before the stream is taken up again
const TOO_LATE = 'The answer ended before it read your message.';
const pause = (ms: number) => new Promise(done => setTimeout(done, ms));
const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map(one => one.toString(16).padStart(2, '0')).join('');

const empty = (id: string): Conversation => ({
  id, title: '', messages: [], versions: {}, ended: null, running: false, error: null,
});

export type Draft = { text: string; files: Part[] };

const toMessage = ({ text, files }: Draft): Message =>
  ({ id: newId(), role: 'user', parts: [...files, ...(text ? [{ type: 'text', text }] : [])] });

/** What the page is told by a conversation. */
export type Listener = {
  change: () => void; // something is to be shown
  say: (text: string) => void; // something is to be read out
  begin: (id: string) => void; // an answer begins
  end: (id: string) => void; // an answer has ended
  refuse: (error: ServerError, draft: Draft | null) => void; // the server did not take a request
};

export class Chat {
  known: Conversation;
  error: string | null = null;
  running = false;
  private builder: MessageBuilder | null = null;
  private isLeft = false;
  private readonly sent = new Map<string, Draft>(); // to the answer that is being written, which has not read them

  constructor(readonly id: string, private readonly listener: Listener) {
    this.known = empty(id);
  }

  static create(listener: Listener) {
    return new Chat(newId(), listener);
  }

  get messages(): Message[] {
    if (!this.builder || this.builder.message.parts.length === 0) return this.known.messages;
    const { message } = this.builder;
    const last = this.known.messages.at(-1);
    return last?.id === message.id ? [...this.known.messages.slice(0, -1), message] : [...this.known.messages, message];
  }

  /** Whether calls of the last message wait for the user. */
  get waits() {
    return !this.running && this.known.ended === 'pending';
  }

  get waiting(): Part[] {
    const last = this.known.messages.at(-1);
    return this.waits ? (last?.parts.filter(part => isOpen(part) && part['state'] !== 'approval-responded') ?? []) : [];
  }

  /** Nobody looks at the conversation any more; its answer goes on. */
  leave() {
    this.isLeft = true;
  }

  /** Loads what the server has, and reads on where an answer is being written. */
  async load(): Promise<boolean> {
    const found = await api.load(this.id);
    this.known = found ?? empty(this.id);
    this.error = this.known.error;
    this.listener.change();
    if (this.known.running && !this.running) void this.follow(() => api.resume(this.id), null);
    return found !== null;
  }

  async choose(turn: string) {
    await this.guard(async () => {
      this.known = await api.choose(this.id, turn);
      this.error = this.known.error;
      this.listener.change();
    });
  }

  /** Says something; with `edited`, in place of what was said there. */
  say(draft: Draft, edited: string | null = null) {
    const message = toMessage(draft);
    const { messages } = this.known;
    const at = edited === null ? messages.length : messages.findIndex(one => one.id === edited);
    const before = this.known;
    this.known = { ...before, messages: [...messages.slice(0, at), message], ended: null };
    void this.follow(() => api.ask({ id: this.id, message, messageId: edited, trigger: 'submit-message' }), { before, draft });
  }

  /** How many messages the answer that is being written has not read yet. */
  get unread() {
    return this.sent.size;
  }

  /** Sends a message to the answer that is being written. */
  async steer(draft: Draft, delivery: Delivery) {
    const message = toMessage(draft);
    this.sent.set(message.id, draft);
    this.listener.change();
    this.listener.say(delivery === 'steer' ? 'The assistant reads your message at its next step.' : 'The assistant reads your message after its answer.');
    try {
      if (await api.send(this.id, message, delivery) || !this.sent.has(message.id)) return;
      throw new ServerError(409, TOO_LATE);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (this.sent.delete(message.id)) this.listener.refuse(error, draft);
      this.listener.change();
    }
  }

  /** Gives back what the answer did not read before it ended. */
  private giveBack() {
    const left = [...this.sent.values()];
    this.sent.clear();
    if (!left.length) return;
    const text = left.map(one => one.text).filter(Boolean).join('\n\n');
    this.listener.refuse(new ServerError(409, TOO_LATE), { text, files: left.flatMap(one => one.files) });
  }

  /** Asks for another answer to what was said last. */
  again() {
    const before = this.known;
    const at = before.messages.findLastIndex(one => one.role === 'user');
    const asked = before.messages[at];
    if (!asked) return;
    this.known = { ...before, messages: before.messages.slice(0, at + 1), ended: null };
    const body = { id: this.id, messages: [], messageId: asked.id, trigger: 'regenerate-message' };
    void this.follow(() => api.ask(body), { before, draft: null });
  }

  /** Answers a call that waits. When no other waits, the answers are sent; an approval that was left open alone. */
  answer(call: Part, change: object) {
    const last = this.known.messages.at(-1);
    if (!last) return;
    const asking = this.waits ? undefined : this.known.messages.findLast(one => one.parts.some(part => isAsked(part, call)));
    if (asking) {
      this.answerLate(asking, call, change);
      return;
    }
    const parts = last.parts.map(part => (part['toolCallId'] === call['toolCallId'] ? { ...part, ...change } : part));
    const message = { ...last, parts };
    const before = this.known;
    this.known = { ...before, messages: [...before.messages.slice(0, -1), message] };
    const left = this.waiting.length;
    if (left) {
      this.listener.say(`${left} more ${left === 1 ? 'call needs' : 'calls need'} your answer.`);
      this.listener.change();
      return;
    }
    void this.follow(() => api.ask({ id: this.id, message, trigger: 'submit-message' }), { before, draft: null });
  }

  private answerLate(asking: Message, call: Part, change: object) {
    const message = { ...asking, parts: asking.parts.map(part => (isAsked(part, call) ? { ...part, ...change } : part)) };
    const before = this.known;
    this.known = { ...before, messages: before.messages.map(one => (one === asking ? message : one)), ended: null };
    void this.follow(() => api.ask({ id: this.id, message, trigger: 'submit-message' }), { before, draft: null });
  }

  reply(questionId: string, action: string, content: unknown) {
    void this.guard(async () => {
      await api.reply(this.id, questionId, action, content);
    });
  }

  stop() {
    void this.guard(async () => {
      await api.stop(this.id);
    });
  }

  private async guard(work: () => Promise<void>) {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.listener.refuse(error, null);
    }
  }

  /** Reads an answer to its end, also where the connection is lost in between. */
  private async follow(open: () => AsyncGenerator<Chunk>, undo: { before: Conversation; draft: Draft | null } | null) {
    this.running = true;
    this.error = null;
    this.listener.begin(this.id);
    this.listener.say('The assistant is answering.');
    let tries = 0;
    let isTaken = false;
    let source = open;
    while (!this.isLeft) {
      try {
        this.builder = new MessageBuilder(this.base());
        this.listener.change();
        for await (const chunk of source()) {
          isTaken = true;
          tries = 0;
          this.builder.add(chunk);
          if (chunk.type === 'data-joined') this.sent.delete(String(chunk['id']));
          if (this.isLeft) return;
          this.listener.change();
        }
        break;
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        if (error.status !== 0 || (!isTaken && undo) || tries >= PAUSES.length) {
          this.fail(error, isTaken ? null : undo);
          return;
        }
        await pause(PAUSES[tries++] ?? 0);
        await api.load(this.id).then(found => (this.known = found ?? this.known), () => undefined);
        source = () => api.resume(this.id);
      }
    }
    if (!this.isLeft) await this.finish();
  }

  /** The message that an answer goes on with, or a new one. */
  private base(): Message {
    const last = this.known.messages.at(-1);
    return last?.role === 'assistant' ? { ...last, parts: [...last.parts] } : { id: '', role: 'assistant', parts: [] };
  }

  private fail(error: ServerError, undo: { before: Conversation; draft: Draft | null } | null) {
    this.running = false;
    this.builder = null;
    if (undo) this.known = undo.before;
    this.listener.refuse(error, undo?.draft ?? null);
    this.giveBack();
    this.listener.change();
    this.listener.end(this.id);
  }

  private async finish() {
    const builder = this.builder;
    try {
      const found = await api.load(this.id);
      if (found) this.known = found;
    } catch {
      if (builder) this.known = { ...this.known, messages: this.messages };
    }
    this.running = false;
    this.builder = null;
    this.error = this.known.error ?? builder?.error ?? null;
    this.listener.change();
    this.listener.end(this.id);
    this.listener.say(this.outcome());
    this.giveBack();
    if (this.known.running) await this.load(); // another answer has begun elsewhere
  }

  private outcome(): string {
    if (this.error) return `The answer failed: ${this.error}`;
    if (this.known.ended === 'stopped') return 'The answer was stopped.';
    const [first] = this.waiting;
    if (first) return `${toolLabel(first)} needs your ${first['state'] === 'approval-requested' ? 'approval' : 'answer'}.`;
    const text = this.known.messages.at(-1)?.parts.filter(part => part.type === 'text').map(part => part['text']).join(' ') ?? '';
    return `The assistant answered: ${text.slice(0, 400)}`;
  }
}

const approvalId = (part: Part) => (part['approval'] as { id?: string } | undefined)?.id;
const isAsked = (part: Part, call: Part) => part['state'] === 'approval-requested' && approvalId(part) === approvalId(call);
