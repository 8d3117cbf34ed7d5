// Questions to the user in the middle of an answer: a form of plain fields, or an address to visit.
import { button, h } from './dom.ts';
import { link } from './markdown.ts';

type Schema = { type?: string; title?: string; description?: string; enum?: unknown[]; enumNames?: string[]; default?: unknown;
  format?: string; minimum?: number; maximum?: number; minLength?: number; maxLength?: number; items?: Schema;
  oneOf?: { const: unknown; title?: string }[]; anyOf?: { const: unknown; title?: string }[];
  properties?: Record<string, Schema>; required?: string[] };
export type Question = { questionId: string; message: string; title?: string; schema?: Schema; url?: string | null;
  answered?: string; faults?: string[] };
export type Answer = (action: 'accept' | 'decline' | 'cancel', content: unknown) => void;

const TYPES: Record<string, string> = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local' };
const DONE: Record<string, string> = { accept: 'Answered.', decline: 'Declined.', cancel: 'Cancelled.' };

/** A question, with its form while it waits. */
export function showQuestion(question: Question, isOpen: boolean, answer: Answer): HTMLElement {
  const title = h('h3', {}, question.title || 'Question');
  const text = h('p', {}, question.message);
  if (question.answered || !isOpen)
    return h('section', { class: 'card question', 'aria-label': 'Question' }, title, text, h('p', { class: 'note' }, DONE[question.answered ?? ''] ?? 'Not answered.'));
  const fields = Object.entries(question.schema?.properties ?? {}).map(([name, schema]) => field(name, schema, question.schema?.required?.includes(name) ?? false));
  const send = (event: Event) => {
    event.preventDefault();
    const content: Record<string, unknown> = {};
    for (const one of fields) {
      const value = one.read();
      if (value !== undefined) content[one.name] = value;
    }
    answer('accept', question.url ? null : content);
  };
  const faults = question.faults?.length ? h('ul', { class: 'faults', role: 'alert' }, ...question.faults.map(one => h('li', {}, one))) : null;
  const buttons = h('div', { class: 'row' },
    h('button', { type: 'submit', class: 'primary' }, fields.length || question.url ? 'Send' : 'Yes'),
    button('Decline', () => answer('decline', null)),
    button('Cancel', () => answer('cancel', null), { class: 'quiet' }));
  const form = h('form', { onsubmit: send }, faults, ...fields.map(one => one.element), buttons);
  const visit = question.url ? h('p', {}, 'It asks you to visit ', link(question.url, [document.createTextNode(question.url)]), '. Look at the address before you do.') : null;
  return h('section', { class: 'card question', 'aria-label': `Question: ${question.message}` }, title, text, visit, form);
}

type Field = { name: string; element: HTMLElement; read: () => unknown };
let count = 0;

function field(name: string, schema: Schema, required: boolean): Field {
  const id = `field-${(count += 1)}`;
  const label = h('label', { for: id }, schema.title ?? name, required ? ' *' : '');
  const note = schema.description ? h('p', { class: 'note', id: `${id}-note` }, schema.description) : null;
  const shared = { id, name, required, 'aria-describedby': note ? `${id}-note` : null };
  const wrap = (input: HTMLElement, read: () => unknown): Field => ({ name, element: h('div', { class: 'field' }, label, input, note), read });
  const multiple = schema.type === 'array';
  const choices = choicesOf(multiple ? (schema.items ?? {}) : schema);
  if (choices) {
    const options = choices.map(([value, title]) => h('option', { value: JSON.stringify(value), selected: schema.default === value }, title));
    const select = h('select', { ...shared, multiple }, ...(required || multiple ? [] : [h('option', { value: '' }, '')]), ...options);
    const chosen = () => [...select.selectedOptions].filter(one => one.value).map(one => JSON.parse(one.value) as unknown);
    return wrap(select, () => (multiple ? chosen() : chosen()[0]));
  }
  if (schema.type === 'boolean') {
    const box = h('input', { ...shared, required: false, type: 'checkbox', checked: schema.default === true });
    return wrap(box, () => box.checked);
  }
  const isNumber = schema.type === 'number' || schema.type === 'integer';
  const input = h('input', { ...shared, type: isNumber ? 'number' : (TYPES[schema.format ?? ''] ?? 'text'), step: schema.type === 'integer' ? 1 : isNumber ? 'any' : null,
    min: schema.minimum, max: schema.maximum, minlength: schema.minLength, maxlength: schema.maxLength, value: schema.default as string | undefined });
  return wrap(input, () => (input.value === '' ? undefined : isNumber ? Number(input.value) : schema.format === 'date-time' ? new Date(input.value).toISOString() : input.value));
}

function choicesOf(schema: Schema): [unknown, string][] | null {
  const named = schema.oneOf ?? schema.anyOf;
  if (named?.every(one => 'const' in one)) return named.map(one => [one.const, one.title ?? String(one.const)]);
  return schema.enum ? schema.enum.map((value, at) => [value, schema.enumNames?.[at] ?? String(value)]) : null;
}
