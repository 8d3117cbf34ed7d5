// The list of conversations: found by their titles, the newest first.
import * as api from './api.ts';
import type { Summary } from './api.ts';
import { byId, h } from './dom.ts';

const DAY = 86_400_000;

function dayOf(seconds: number): string {
  const start = new Date().setHours(0, 0, 0, 0);
  const then = seconds * 1000;
  if (then >= start) return 'Today';
  if (then >= start - DAY) return 'Yesterday';
  if (then >= start - 6 * DAY) return 'This week';
  return 'Earlier';
}

export class Sidebar {
  private readonly listed = byId('conversations');
  private readonly search = byId<HTMLInputElement>('search');
  private all: Summary[] = [];
  private isWhole = false;
  private current = '';

  constructor(private readonly open: (id: string) => void) {
    this.search.addEventListener('input', () => this.draw());
  }

  async load() {
    this.all = await api.list();
    this.isWhole = this.all.length < 100;
    this.draw();
  }

  select(id: string) {
    this.current = id;
    this.draw();
  }

  private async more() {
    const last = this.all.at(-1);
    if (!last) return;
    const older = (await api.list(last.changed)).filter(one => !this.all.some(known => known.id === one.id));
    this.all = [...this.all, ...older];
    this.isWhole = older.length < 100;
    this.draw();
  }

  private draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = this.all.filter(one => one.title.toLowerCase().includes(wanted));
    const days = new Map<string, HTMLElement[]>();
    for (const one of found) {
      const day = dayOf(one.changed);
      days.set(day, [...(days.get(day) ?? []), this.item(one)]);
    }
    const groups = [...days].flatMap(([day, items]) => [h('h2', {}, day), h('ul', {}, ...items)]);
    const none = !groups.length && h('p', { class: 'note' }, wanted ? 'Nothing is found.' : 'No conversations yet.');
    const more = !this.isWhole && h('button', { type: 'button', class: 'quiet', onclick: () => void this.more() }, 'Older conversations');
    this.listed.replaceChildren(...groups, ...[none, more].filter(one => one !== false));
  }

  private item(one: Summary) {
    const isCurrent = one.id === this.current;
    const dot = one.running && h('span', { class: 'dot', role: 'img', 'aria-label': 'An answer is being written' });
    const click = (event: Event) => {
      event.preventDefault();
      this.open(one.id);
    };
    const link = h('a', { href: `#c=${encodeURIComponent(one.id)}`, 'aria-current': isCurrent ? 'page' : null, onclick: click }, h('span', {}, one.title || 'Without a title'), dot);
    return h('li', {}, link);
  }
}
