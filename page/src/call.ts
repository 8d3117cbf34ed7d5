// Calls of tools: their parameters as they come, their results, and the answers that they wait for.
import type { Part } from './api.ts';
import { button, h } from './dom.ts';
import { escapeText, exactJson, squeeze } from './exact.ts';
import { icon, type IconName } from './icon.ts';
import { readableName, toolLabel, toolName } from './message.ts';
import { json, showValue } from './value.ts';

const STATES: Record<string, [IconName, string]> = {
  'input-streaming': ['wait', 'Preparing …'],
  'input-available': ['wait', 'Running …'],
  'approval-requested': ['ask', 'Needs your approval'],
  'approval-responded': ['wait', 'Answered'],
  'output-available': ['done', 'Done'],
  'output-error': ['failed', 'Failed'],
  'output-denied': ['denied', 'Denied'],
};

/** What the user answers to a call that waits: an approval, or a result. */
export type CallAnswers = {
  approve: (part: Part, approved: boolean, reason: string) => void;
  result: (part: Part, output: unknown) => void;
};

/** A call of a tool; `waits` where the server waits for the user, and `runs` where the answer is being written. */
export function showCall(part: Part, waits: boolean, runs: boolean, answers: CallAnswers): HTMLElement {
  const state = String(part['state']);
  const isCut = !waits && !runs && state.startsWith('input');
  const [sign, words]: [IconName, string] = isCut ? ['denied', 'Did not finish'] : waits && state === 'input-available' ? ['ask', 'Needs your result'] : (STATES[state] ?? ['tool', state]);
  const preliminary = part['preliminary'];
  const asks = state === 'approval-requested';
  const title = squeeze(escapeText(nameOf(part, asks)));
  const summary = h('summary', {},
    h('span', { class: `sign ${state}` }, icon(sign)),
    h('span', { class: 'tool-name' }, title),
    h('span', { class: 'note' }, preliminary ? 'Running, result so far' : words));
  const isShort = state === 'output-available' && !part['preliminary'];
  const shown = h('details', { class: `card call`, open: !isShort || isPicture(part['output']), 'data-state': state, 'data-tool': toolName(part) }, summary, asks ? exactParameters(part) : parameters(part));
  if (part['output'] !== undefined) shown.append(section(part['preliminary'] ? 'Result so far' : 'Result', showValue(part['output'])));
  if (part['errorText'] !== undefined) shown.append(section('Why it failed', showFailure(String(part['errorText']))));
  const reason = (part['approval'] as { reason?: string } | undefined)?.reason;
  if (reason) shown.append(section('Your reason', h('div', { class: 'plain' }, reason)));
  if (waits && state === 'approval-requested') shown.append(approval(part, title, answers));
  if (waits && state === 'input-available') shown.append(resultForm(part, title, answers));
  return shown;
}

/** The name of a call; where the user decides, the name of the tool too, because a title can say anything. */
function nameOf(part: Part, asks: boolean): string {
  const name = toolName(part);
  const label = toolLabel(part);
  return asks && label !== name ? `${label} (${name})` : label;
}

/** A failure in words: its message or its kind, and its other members as fields. */
function showFailure(text: string): HTMLElement {
  const failure = parse(text);
  if (typeof failure !== 'object' || failure === null || Array.isArray(failure)) return h('div', { class: 'plain error-text' }, String(failure));
  const { message, type, _tag, error, ...fields } = failure as Record<string, unknown>;
  const kind = type ?? _tag;
  const words = [message, error].find(one => typeof one === 'string') ?? (typeof kind === 'string' ? `${readableName(kind)}.` : 'The tool returned a failure.');
  return h('div', { class: 'stack' }, h('div', { class: 'plain error-text' }, String(words)), Object.keys(fields).length ? showFields(fields) : null);
}

/** All parameters, as the user approves them: nothing is folded, cut, or hidden by how it is written. */
function exactParameters(part: Part): Node {
  const given = part['input'] ?? part['rawInput'];
  const text = given === undefined ? squeeze(escapeText(String(part['inputText'] ?? ''))) : exactJson(given);
  return section('Parameters', h('pre', { class: 'plain exact', tabindex: 0 }, text));
}

const isPicture = (output: unknown) => JSON.stringify(output ?? null).includes('"image');

function section(name: string, content: Node) {
  return h('div', { class: 'part' }, h('h3', {}, name), content);
}

function parameters(part: Part): Node {
  const given = part['input'] ?? part['rawInput'];
  if (given === undefined) return section('Parameters', h('pre', { class: 'plain', tabindex: 0 }, String(part['inputText'] ?? '')));
  if (typeof given === 'object' && given !== null && Object.keys(given).length === 0) return document.createComment('');
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return section('Parameters', json(given));
  return section('Parameters', showFields(given));
}

function showFields(fields: object): HTMLElement {
  const rows = Object.entries(fields).flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, typeof value === 'string' ? h('span', { class: 'plain' }, value) : json(value))]);
  return h('dl', { class: 'fields' }, ...rows);
}

function approval(part: Part, title: string, answers: CallAnswers) {
  const reason = h('input', { type: 'text', placeholder: 'A reason, if you like', 'aria-label': `Reason for your answer to ${title}`, maxlength: 2000 });
  const answer = (approved: boolean) => () => answers.approve(part, approved, reason.value.trim());
  const allow = button('Allow', answer(true), { class: 'primary', 'aria-label': `Allow ${title}` });
  const deny = button('Deny', answer(false), { class: 'danger', 'aria-label': `Deny ${title}` });
  return h('div', { class: 'row answer', role: 'group', 'aria-label': `Approval of ${title}` }, allow, deny, reason);
}

function resultForm(part: Part, title: string, answers: CallAnswers) {
  const text = h('textarea', { rows: 2, 'aria-label': `Result of ${title}`, placeholder: 'The result, as JSON or as text' });
  const send = (event: Event) => {
    event.preventDefault();
    answers.result(part, parse(text.value));
  };
  return h('form', { class: 'answer', onsubmit: send }, text, h('div', { class: 'row' }, h('button', { type: 'submit', class: 'primary' }, 'Send the result')));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
