// The message that the chunks of an answer come to, as the server has it, too.
import type { Chunk, Message, Part } from './api.ts';

const WAITING = new Set(['input-streaming', 'input-available', 'approval-requested', 'approval-responded']);

export const isCall = (part: Part) => part.type === 'dynamic-tool' || part.type.startsWith('tool-');
export const toolName = (part: Part) =>
  part.type === 'dynamic-tool' ? String(part['toolName']) : part.type.slice('tool-'.length);
/** The name as words: `search_files` and `searchFiles` become "Search files". */
export function readableName(name: string): string {
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1 $2').split(/[\s_.:/-]+/).filter(Boolean);
  const text = words.map(word => (/^[A-Z\d]{2,}$/.test(word) ? word : word.toLowerCase())).join(' ');
  return text ? text[0]?.toUpperCase() + text.slice(1) : name;
}

const titles = new Map<string, string>();

/** Remembers the titles that the server has for its tools. */
export function setTitles(tools: { name: string; title: string }[]) {
  for (const { name, title } of tools) if (title) titles.set(name, title);
}

/** What the user reads for a call: the title of the tool, or its name as words. */
export function toolLabel(part: Part): string {
  const name = toolName(part);
  return String(part['title'] || titles.get(name) || readableName(name));
}

export const isOpen = (part: Part) => isCall(part) && WAITING.has(String(part['state']));

/** Puts a message together; each part that changes is another object, so that what shows it knows. */
export class MessageBuilder {
  error: string | null = null;
  private readonly open = new Map<string, number>();

  constructor(public message: Message) {}

  add(chunk: Chunk): void {
    const { type } = chunk;
    const text = /^(text|reasoning)-(start|delta|end)$/.exec(type);
    if (text) this.addText(text[1] ?? '', text[2] ?? '', chunk);
    else if (type.startsWith('tool-')) this.addCall(type, chunk);
    else if (type.startsWith('data-')) this.addData(chunk);
    else if (type === 'start') this.start(chunk);
    else if (type === 'start-step') this.push({ type: 'step-start' });
    else if (type.startsWith('source-') || type === 'file') this.push({ ...chunk });
    else if (type === 'error') this.error = String(chunk['errorText']);
  }

  private start(chunk: Chunk) {
    const id = chunk['messageId'];
    if (typeof id !== 'string' || id === this.message.id) return;
    this.message = { ...this.message, id, parts: [] }; // a message of its own, and not the one that was shown
  }

  private get parts() {
    return this.message.parts;
  }

  private push(part: Part): number {
    return this.parts.push(part) - 1;
  }

  private change(at: number, more: object) {
    const part = this.parts[at];
    if (part) this.parts[at] = { ...part, ...more };
  }

  private addText(kind: string, step: string, chunk: Chunk) {
    const key = `${kind} ${chunk['id']}`;
    if (step === 'start') this.open.set(key, this.push({ type: kind, text: '', state: 'streaming' }));
    const at = this.open.get(key);
    if (at === undefined) return;
    if (step === 'delta') this.change(at, { text: String(this.parts[at]?.['text']) + String(chunk['delta']) });
    if (step === 'end') this.change(at, { state: 'done' });
  }

  private addCall(type: string, chunk: Chunk) {
    const id = chunk['toolCallId'];
    const at = type === 'tool-input-start' ? this.startCall(chunk) : this.callOf(chunk);
    const { output, errorText, input } = chunk;
    const streamed = String(this.parts[at]?.['inputText'] ?? '');
    if (type === 'tool-input-delta') this.change(at, { inputText: streamed + String(chunk['inputTextDelta']) });
    if (type === 'tool-input-available') this.change(at, { state: 'input-available', input });
    if (type === 'tool-input-error') this.change(at, { state: 'output-error', input, errorText });
    if (type === 'tool-approval-request')
      this.change(at, { state: 'approval-requested', approval: { id: chunk['approvalId'] } });
    if (type === 'tool-output-available')
      this.change(at, { state: 'output-available', output, preliminary: chunk['preliminary'] ?? false });
    if (type === 'tool-output-error') this.change(at, { state: 'output-error', errorText });
    if (type === 'tool-output-denied') this.change(at, { state: 'output-denied' });
    this.open.set(`call ${id}`, at);
  }

  private startCall(chunk: Chunk): number {
    const name = String(chunk['toolName'] ?? '');
    const kind = chunk['dynamic'] ? { type: 'dynamic-tool', toolName: name } : { type: `tool-${name}` };
    return this.push({ ...kind, toolCallId: chunk['toolCallId'], title: chunk['title'], state: 'input-streaming' });
  }

  private callOf(chunk: Chunk): number {
    const id = chunk['toolCallId'];
    const known = this.open.get(`call ${id}`) ?? this.parts.findLastIndex(part => part['toolCallId'] === id);
    return known >= 0 ? known : this.startCall(chunk);
  }

  private addData(chunk: Chunk) {
    if (chunk['transient']) return;
    const id = chunk['id'];
    const known = this.parts.findIndex(part => part.type === chunk.type && id !== undefined && part['id'] === id);
    if (known >= 0) this.change(known, { data: chunk['data'] });
    else this.push({ ...chunk });
  }
}
