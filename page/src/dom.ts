// Elements: made by a function, and never from a text of HTML, so that nothing that a model says is markup.

import { icon, type IconName } from './icon.ts';

type Child = Node | string | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);

/** An element with these attributes, listeners (`onclick`, …) and children; what is null or false is left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** A button with a text. */
export function button(text: string, onclick: (event: MouseEvent) => void, attributes: Record<string, Value> = {}) {
  return h('button', { type: 'button', onclick, ...attributes }, text);
}

/** A button with an icon and a text. */
export function labelButton(name: IconName, text: string, onclick: (event: MouseEvent) => void, attributes: Record<string, Value> = {}) {
  return h('button', { type: 'button', onclick, ...attributes }, icon(name), text);
}

/** A button of one sign, which has a name for those who cannot see it. */
export function iconButton(sign: string, name: string, onclick: (event: MouseEvent) => void, more: Record<string, Value> = {}) {
  const shown = h('span', { 'aria-hidden': 'true' }, sign);
  return h('button', { type: 'button', class: 'icon', 'aria-label': name, title: name, onclick, ...more }, shown);
}

/** A button that copies a text, and says that it has. */
export function copyButton(name: string, text: () => string) {
  const show = (words: string) => made.replaceChildren(icon(words === 'Copied' ? 'done' : 'copy'), words);
  const made = labelButton('copy', 'Copy', async () => {
    try {
      await navigator.clipboard.writeText(text());
      show('Copied');
    } catch {
      show('Cannot copy');
    }
    setTimeout(() => show('Copy'), 1500);
  }, { class: 'quiet copy', 'aria-label': name });
  return made;
}

/** The element of the page with this id. */
export function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}
