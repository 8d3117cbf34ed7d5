// A message as elements, of which only what has changed is made anew.
import type { Message, Part } from './api.ts';
import { showCall, type CallAnswers } from './call.ts';
import { copyButton, h } from './dom.ts';
import { icon } from './icon.ts';
import { link, MarkdownView } from './markdown.ts';
import { isCall, isOpen } from './message.ts';
import { showQuestion, type Question } from './question.ts';
import { json, showFile } from './value.ts';

/** What the parts of a message need to know of the conversation, and do to it. */
export type MessageContext = {
  runs: boolean; // whether the message is being written
  waits: boolean; // whether calls of it wait for the user
  late: boolean; // whether approvals that it left open can be given now
  calls: CallAnswers;
  answer: (question: Question, action: string, content: unknown) => void;
};

type Shown = { part: Part; key: string; node: HTMLElement | Comment; text?: MarkdownView };

export class MessageView {
  readonly element: HTMLElement;
  private readonly body = h('div', { class: 'body' });
  private readonly foot = h('div', { class: 'foot' });
  private shown: Shown[] = [];
  private message: Message;
  private state = '';

  constructor(message: Message) {
    this.message = message;
    const name = message.role === 'user' ? 'You' : 'Assistant';
    this.element = h('li', { class: `message ${message.role}`, 'data-id': message.id }, h('h2', { class: 'hidden' }, name), this.body, this.foot);
  }

  /** Whether it shows this message already, in this state of the conversation. */
  isAsBefore(message: Message, state: string): boolean {
    const isSame = this.message === message && this.state === state && !this.element.classList.contains('running');
    this.state = state;
    return isSame && this.shown.length === message.parts.length;
  }

  show(message: Message, context: MessageContext, actions: HTMLElement[]) {
    this.message = message;
    this.element.classList.toggle('running', context.runs);
    const key = `${context.runs}${context.waits}${context.late}`;
    message.parts.forEach((part, at) => this.showPart(part, at, key, context));
    while (this.shown.length > message.parts.length) this.shown.pop()?.node.remove();
    this.foot.replaceChildren(...(context.runs ? [] : actions));
  }

  private showPart(part: Part, at: number, context: string, given: MessageContext) {
    const key = part.type === 'text' || part.type === 'file' ? '' : context;
    const old = this.shown[at];
    if (old && old.part === part && old.key === key) return;
    if (old?.text && old.part.type === part.type && part.type === 'text') {
      old.text.show(String(part['text']));
      old.part = part;
      return;
    }
    const made = this.makeOrSay(part, key, given);
    if (old) {
      keepOpen(old, made);
      old.node.replaceWith(made.node);
    } else this.body.append(made.node);
    this.shown[at] = made;
  }

  /** A part that cannot be shown leaves the others. */
  private makeOrSay(part: Part, key: string, given: MessageContext): Shown {
    try {
      return this.make(part, key, given);
    } catch {
      return { part, key, node: h('p', { class: 'note' }, `A part of the kind ${part.type} cannot be shown.`) };
    }
  }

  private make(part: Part, key: string, given: MessageContext): Shown {
    if (part.type === 'text' && this.message.role === 'assistant') {
      const text = new MarkdownView();
      text.show(String(part['text']));
      return { part, key, node: text.element, text };
    }
    return { part, key, node: makePart(part, given) };
  }
}

/** What the user has opened or closed stays so. */
function keepOpen(old: Shown, made: Shown) {
  const [before, after] = [old.node, made.node];
  const isSame = old.part.type === 'reasoning' || old.part['state'] === made.part['state'] && old.part['preliminary'] === made.part['preliminary'];
  if (before instanceof HTMLDetailsElement && after instanceof HTMLDetailsElement && isSame) after.open = before.open;
}

function makePart(part: Part, given: MessageContext): HTMLElement | Comment {
  const { type } = part;
  if (type === 'text') return h('div', { class: 'plain' }, String(part['text']));
  if (type === 'reasoning') return reasoning(part);
  if (isCall(part)) return showCall(part, (given.waits && isOpen(part)) || (given.late && part['state'] === 'approval-requested'), given.runs, given.calls);
  if (type === 'file') return h('div', { class: 'attachment' }, showFile(String(part['mediaType']), String(part['url']), String(part['filename'] ?? '')));
  if (type === 'source-url')
    return h('p', { class: 'source' }, 'Source: ', link(String(part['url']), [document.createTextNode(String(part['title'] ?? part['url']))]));
  if (type === 'source-document') return h('p', { class: 'source' }, `Source: ${String(part['title'] ?? part['filename'])}`);
  if (type === 'data-joined') return h('div', { class: 'joined' }, h('h3', { class: 'hidden' }, 'You'), (part['data'] as { text: string }).text);
  if (type === 'data-question') {
    const question = part['data'] as Question;
    return showQuestion(question, given.runs, (action, content) => given.answer(question, action, content));
  }
  if (type.startsWith('data-')) {
    const data = h('div', { class: 'part' }, json(part['data']));
    return h('details', { class: 'card call', open: true }, h('summary', {}, h('span', { class: 'tool-name' }, type.slice('data-'.length))), data);
  }
  return document.createComment(type);
}

function reasoning(part: Part): HTMLElement | Comment {
  if (!part['text'] && part['state'] !== 'streaming') return document.createComment('reasoning'); // some models keep it
  const isWritten = part['state'] === 'streaming';
  const summary = h('summary', {}, icon('think'), isWritten ? 'Thinking …' : 'Thoughts');
  return h('details', { class: 'reasoning' }, summary, h('div', { class: 'plain' }, String(part['text'])));
}

/** The button that copies what a message says. */
export function copyMessage(message: Message): HTMLElement {
  const text = () => message.parts.filter(part => part.type === 'text').map(part => String(part['text'])).join('\n\n');
  return copyButton('Copy the message', text);
}
