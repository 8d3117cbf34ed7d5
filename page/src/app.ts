// The page: one conversation at a time, the list of all, and what stands around them.
import * as api from './api.ts';
import { type Info, type Message, type Part, ServerError } from './api.ts';
import { Chat, type Draft, type Listener } from './chat.ts';
import { Composer } from './composer.ts';
import { button, byId, h, iconButton, labelButton } from './dom.ts';
import { readableName, setTitles } from './message.ts';
import { icon } from './icon.ts';
import { copyMessage, MessageView, type MessageContext } from './message_view.ts';
import { Sidebar } from './sidebar.ts';

const NEAR = 80; // pixels from the end within which the page follows what is written
const MOST_TOOLS = 8; // of the empty page
const channel = new BroadcastChannel('fxai');

class Page {
  private readonly list = byId('messages');
  private readonly scroller = byId('scroller');
  private readonly views = new Map<string, MessageView>();
  private readonly sidebar = new Sidebar(id => void this.open(id));
  private readonly composer: Composer;
  private chat: Chat;
  private isDrawing = false;
  private follows = true; // whether the page stays at the end while more is written

  constructor(private readonly info: Info) {
    this.composer = new Composer(info, {
      send: (draft, edited) => this.send(draft, edited),
      steer: (draft, delivery) => void this.chat.steer(draft, delivery),
      stop: () => this.chat.stop(),
      editLast: () => this.editLast(),
      tell: text => this.tell(text),
    });
    this.chat = Chat.create(this.listener);
    this.wire();
  }

  private readonly listener: Listener = {
    change: () => this.draw(),
    say: text => (byId('status').textContent = text),
    begin: id => {
      channel.postMessage({ begun: id });
      void this.refresh();
    },
    end: id => {
      channel.postMessage({ ended: id });
      void this.refresh();
    },
    refuse: (error, draft) => {
      if (draft) this.composer.restore(draft);
      this.report(error);
    },
  };

  private wire() {
    byId('new').addEventListener('click', () => this.begin());
    byId('menu').addEventListener('click', () => this.toggleMenu());
    byId('shade').addEventListener('click', () => this.toggleMenu(false));
    byId('rename').addEventListener('click', () => void this.rename());
    byId('delete').addEventListener('click', () => void this.remove());
    byId('keys').addEventListener('click', () => byId<HTMLDialogElement>('keys-dialog').showModal());
    byId('to-end').addEventListener('click', () => this.toEnd());
    this.scroller.addEventListener('scroll', () => {
      this.follows = this.isNearEnd();
      byId('to-end').hidden = this.follows || !this.chat.messages.length;
    });
    const grown = new ResizeObserver(() => this.follows && this.toEnd());
    for (const one of [this.list, this.scroller]) grown.observe(one);
    window.addEventListener('hashchange', () => void this.openHash());
    document.addEventListener('keydown', event => this.press(event));
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') void this.catchUp();
    });
    channel.addEventListener('message', ({ data }: MessageEvent<{ begun?: string; ended?: string }>) => {
      if (data.begun === this.chat.id || data.ended === this.chat.id) void this.catchUp();
      else void this.refresh();
    });
  }

  async start() {
    document.title = this.info.title;
    byId('brand').textContent = this.info.title;
    setTitles(this.info.tools);
    this.drawEmpty();
    await this.refresh();
    await this.openHash();
  }

  /** What the user sees before the first message: the tools, some questions to start with, and the model. */
  private drawEmpty() {
    const { tools, suggestions, model } = this.info;
    const asks = suggestions.slice(0, 4).map(text => h('li', {}, button(text, () => this.composer.suggest(text))));
    const known = tools.slice(0, MOST_TOOLS).map(tool => h('li', {}, icon('tool'), h('span', {}, h('strong', {}, tool.title || readableName(tool.name)), firstSentence(tool.description))));
    const more = tools.length > MOST_TOOLS && h('li', { class: 'note' }, `and ${tools.length - MOST_TOOLS} more tools`);
    byId('about').replaceChildren(
      ...(asks.length ? [h('ul', { class: 'suggestions', 'aria-label': 'Suggestions' }, ...asks)] : []),
      ...(known.length ? [h('h3', {}, 'Tools'), h('ul', { class: 'tools', 'aria-label': 'Tools' }, ...known, more)] : []),
      ...(model ? [h('p', { class: 'note' }, `Model: ${model}`)] : []));
  }

  // -- which conversation

  private async openHash() {
    const id = /^#c=(.+)$/.exec(location.hash)?.[1];
    if (id === undefined) this.begin();
    else if (decodeURIComponent(id) !== this.chat.id) await this.open(decodeURIComponent(id));
  }

  private begin() {
    this.show(Chat.create(this.listener));
    history.replaceState(null, '', location.pathname);
    this.composer.input.focus();
  }

  private async open(id: string) {
    this.show(new Chat(id, this.listener));
    history.replaceState(null, '', `#c=${encodeURIComponent(id)}`);
    try {
      if (!(await this.chat.load())) this.tell('This conversation does not exist. It may have been deleted.');
      this.toEnd();
    } catch (error) {
      this.report(error);
    }
  }

  private show(chat: Chat) {
    this.chat.leave();
    this.chat = chat;
    this.views.clear();
    this.list.replaceChildren();
    this.composer.clear();
    this.tell('');
    this.toggleMenu(false);
    this.sidebar.select(chat.id);
    this.draw();
  }

  /** Another window may have gone on with the conversation. */
  private async catchUp() {
    void this.refresh();
    if (this.chat.running || !this.chat.known.messages.length) return;
    try {
      await this.chat.load();
    } catch {
      // the next request will say what is wrong
    }
  }

  private async refresh() {
    try {
      await this.sidebar.load();
    } catch {
      // the conversation itself says that the server is not there
    }
  }

  private async rename() {
    const title = await ask('Rename the conversation', this.chat.known.title);
    if (title) await this.change(() => api.rename(this.chat.id, title));
  }

  private async remove() {
    const dialog = byId<HTMLDialogElement>('delete-dialog');
    dialog.returnValue = '';
    dialog.showModal();
    await new Promise(done => dialog.addEventListener('close', done, { once: true }));
    if (dialog.returnValue !== 'delete') return;
    const gone = this.chat.id;
    await this.change(() => api.remove(gone));
    this.begin();
  }

  private async change(work: () => Promise<unknown>) {
    try {
      await work();
      await this.refresh();
      if (this.chat.known.messages.length) await this.chat.load();
    } catch (error) {
      this.report(error);
    }
  }

  // -- what is said

  private send(draft: Draft, edited: string | null) {
    this.tell('');
    history.replaceState(null, '', `#c=${encodeURIComponent(this.chat.id)}`);
    this.sidebar.select(this.chat.id);
    this.chat.say(draft, edited);
    this.toEnd();
  }

  private editLast() {
    const last = this.chat.known.messages.findLast(one => one.role === 'user');
    if (last) this.edit(last);
  }

  private edit(message: Message) {
    const text = message.parts.filter(part => part.type === 'text').map(part => String(part['text'])).join('\n');
    this.composer.edit(message.id, { text, files: message.parts.filter(part => part.type === 'file') });
  }

  private press(event: KeyboardEvent) {
    const isWriting = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') {
      if (this.chat.running) this.chat.stop();
      else this.toggleMenu(false);
    } else if ((event.ctrlKey || event.metaKey) && event.key === 'k') {
      event.preventDefault();
      this.toggleMenu(true);
      byId('search').focus();
    } else if (event.altKey && event.key === 'n') {
      event.preventDefault();
      this.begin();
    } else if (event.key === '/' && !isWriting) {
      event.preventDefault();
      this.composer.input.focus();
    }
  }

  // -- what is shown

  private isNearEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < NEAR;
  }

  private toEnd() {
    this.follows = true;
    this.scroller.scrollTop = this.chat.messages.length ? this.scroller.scrollHeight : 0;
  }

  /** Draws once a frame, however many chunks come. */
  private draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    const run = () => {
      this.isDrawing = false;
      this.drawNow();
    };
    if (document.visibilityState === 'visible') requestAnimationFrame(run);
    else setTimeout(run, 100); // frames do not come to a page that nobody sees
  }

  private drawNow() {
    const { chat } = this;
    const { messages } = chat;
    const ids = new Set(messages.map((message, at) => keyOf(message, at)));
    for (const [id, view] of this.views) {
      if (ids.has(id)) continue;
      view.element.remove();
      this.views.delete(id);
    }
    messages.forEach((message, at) => this.drawMessage(message, at, messages));
    byId('title').textContent = chat.known.title || 'New conversation';
    for (const id of ['rename', 'delete']) byId(id).hidden = !chat.known.title;
    byId('empty').hidden = messages.length > 0;
    byId('thinking').hidden = !chat.running || messages.at(-1)?.role === 'assistant';
    this.composer.busy = chat.running;
    byId('unread').hidden = !chat.unread;
    byId('unread').textContent = chat.unread === 1 ? 'The assistant has not read your message yet.' : `The assistant has not read ${chat.unread} messages yet.`;
    this.drawError();
    if (this.follows) this.toEnd();
  }

  private drawMessage(message: Message, at: number, all: Message[]) {
    const { chat } = this;
    const key = keyOf(message, at);
    let view = this.views.get(key);
    if (!view) {
      view = new MessageView(message);
      this.views.set(key, view);
    }
    if (this.list.children[at] !== view.element) this.list.insertBefore(view.element, this.list.children[at] ?? null);
    const isLast = at === all.length - 1;
    const versions = JSON.stringify(chat.known.versions[message.role === 'user' ? message.id : (all[at - 1]?.id ?? '')] ?? null);
    const state = [isLast, chat.running, chat.waits, chat.error, all[at + 1]?.role, versions].join(' ');
    if (view.isAsBefore(message, state)) return; // so that a long conversation costs nothing while one answer is written
    const context: MessageContext = {
      runs: isLast && chat.running && message.role === 'assistant',
      waits: isLast && chat.waits,
      late: !isLast && !chat.running && !chat.waits,
      calls: {
        approve: (part, approved, reason) => chat.answer(part, approvalChange(part, approved, reason)),
        result: (part, output) => chat.answer(part, { state: 'output-available', output }),
      },
      answer: (question, action, content) => chat.reply(question.questionId, action, content),
    };
    view.show(message, context, this.actions(message, at, all));
  }

  private actions(message: Message, at: number, all: Message[]): HTMLElement[] {
    const { chat } = this;
    const isUser = message.role === 'user';
    const made: HTMLElement[] = message.parts.some(part => part.type === 'text') ? [copyMessage(message)] : [];
    if (chat.running) return made;
    if (isUser) made.push(labelButton('edit', 'Edit', () => this.edit(message), { class: 'quiet' }));
    if (!isUser && at === all.length - 1 && !chat.waits && !chat.error)
      made.push(labelButton('again', 'Answer again', () => chat.again(), { class: 'quiet' }));
    const asked = isUser ? message : all.slice(0, at).findLast(one => one.role === 'user');
    const versions = asked && chat.known.versions[asked.id];
    const isShownThere = isUser && all[at + 1]?.role === 'assistant';
    if (versions && versions.of > 1 && !isShownThere) made.push(this.branches(versions));
    return made;
  }

  private branches({ index, of, turns }: api.Versions): HTMLElement {
    const go = (to: number) => () => {
      const turn = turns[to];
      if (turn !== undefined) void this.chat.choose(turn);
    };
    return h('span', { class: 'branches', role: 'group', 'aria-label': 'Versions' },
      iconButton('‹', 'The version before', go(index - 1), { disabled: index === 0 }),
      h('span', {}, `${index + 1}/${of}`),
      iconButton('›', 'The next version', go(index + 1), { disabled: index === of - 1 }));
  }

  private drawError() {
    const { error, known, running } = this.chat;
    const stopped = known.ended === 'stopped' && !running ? 'The answer was stopped.' : null;
    const text = running ? null : (error ?? stopped);
    const box = byId('failure');
    box.hidden = !text;
    box.classList.toggle('calm', !error);
    if (text) box.replaceChildren(h('span', {}, ...(error ? [h('strong', {}, 'The answer failed'), text] : [text])), labelButton('again', 'Try again', () => this.chat.again()));
  }

  private tell(text: string) {
    byId('notice').replaceChildren(...(text ? [h('span', {}, text), iconButton('×', 'Dismiss', () => this.tell(''))] : []));
  }

  private report(error: unknown) {
    if (!(error instanceof ServerError)) throw error;
    if (error.status === 401) void signIn();
    else this.tell(error.message);
  }

  private toggleMenu(open = !document.body.classList.contains('menu-open')) {
    document.body.classList.toggle('menu-open', open);
    byId('menu').setAttribute('aria-expanded', String(open));
  }
}

function firstSentence(text: string): string {
  const sentence = /^[^\n]*?[.!?](?=\s|$)/.exec(text.slice(0, 400))?.[0] ?? text.split('\n')[0] ?? '';
  return sentence.length > 140 ? `${sentence.slice(0, 139)}…` : sentence;
}

/** The last message keeps its element when its id becomes known. */
const keyOf = (message: Message, at: number) => `${at} ${message.role} ${message.role === 'user' ? message.id : ''}`;

function approvalChange(part: Part, approved: boolean, reason: string): object {
  const { id } = part['approval'] as { id: string };
  return { state: 'approval-responded', approval: { id, approved, ...(reason ? { reason } : {}) } };
}

// -- dialogs, theme, start

async function ask(title: string, value: string): Promise<string | null> {
  const dialog = byId<HTMLDialogElement>('ask-dialog');
  const input = byId<HTMLInputElement>('ask-input');
  byId('ask-title').textContent = title;
  input.value = value;
  dialog.returnValue = '';
  dialog.showModal();
  input.select();
  await new Promise(done => dialog.addEventListener('close', done, { once: true }));
  return dialog.returnValue === 'ok' ? input.value.trim() : null;
}

async function signIn() {
  const dialog = byId<HTMLDialogElement>('token-dialog');
  if (dialog.open) return;
  dialog.showModal();
  await new Promise(done => dialog.addEventListener('close', done, { once: true }));
  api.setToken(byId<HTMLInputElement>('token').value.trim());
  location.reload();
}

function setUpTheme() {
  const names = ['auto', 'light', 'dark'];
  const signs: Record<string, string> = { auto: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' };
  const set = (name: string) => {
    document.documentElement.dataset['theme'] = name;
    byId('theme').textContent = signs[name] ?? '';
    localStorage.setItem('fxai-theme', name);
  };
  set(names.includes(localStorage.getItem('fxai-theme') ?? '') ? (localStorage.getItem('fxai-theme') ?? 'auto') : 'auto');
  byId('theme').addEventListener('click', () => {
    const at = names.indexOf(document.documentElement.dataset['theme'] ?? 'auto');
    set(names[(at + 1) % names.length] ?? 'auto');
  });
}

async function main() {
  setUpTheme();
  api.takeToken();
  for (const dialog of document.querySelectorAll('dialog'))
    for (const one of dialog.querySelectorAll<HTMLButtonElement>('button[value]')) one.addEventListener('click', () => dialog.close(one.value));
  for (const form of document.querySelectorAll<HTMLFormElement>('dialog form'))
    form.addEventListener('submit', event => {
      event.preventDefault();
      form.closest('dialog')?.close('ok');
    });
  try {
    await new Page(await api.info()).start();
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    if (error.status === 401) await signIn();
    else byId('notice').replaceChildren(h('span', {}, error.message), button('Try again', () => location.reload()));
  } finally {
    document.body.classList.remove('loading');
  }
}

void main();
