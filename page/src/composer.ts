// The box in which the user writes: text and files.
import type { Delivery, Info, Part } from './api.ts';
import type { Draft } from './chat.ts';
import { byId, h, iconButton } from './dom.ts';
import { icon } from './icon.ts';

const size = (bytes: number) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
const isAllowed = (type: string, types: string[]) => types.includes(type) || types.includes(`${type.split('/')[0]}/*`);

type Way = { steer: (draft: Draft, delivery: Delivery) => void; send: (draft: Draft, edited: string | null) => void; stop: () => void; editLast: () => void; tell: (text: string) => void };

export class Composer {
  private readonly form = byId<HTMLFormElement>('composer');
  readonly input = byId<HTMLTextAreaElement>('input');
  private readonly files = byId('files');
  private readonly editing = byId('editing');
  private readonly main = byId<HTMLButtonElement>('send');
  private readonly toRun = byId('to-run');
  private attached: { part: Part; bytes: number }[] = [];
  private edited: string | null = null;
  private isBusy = false;

  constructor(private readonly info: Info, private readonly way: Way) {
    this.showMain();
    this.form.addEventListener('submit', event => {
      event.preventDefault();
      if (this.isBusy) way.stop();
      else this.send();
    });
    byId('steer').addEventListener('click', () => this.send('steer'));
    byId('queue').addEventListener('click', () => this.send('queue'));
    this.input.addEventListener('input', () => this.fit());
    this.input.addEventListener('keydown', event => this.press(event));
    this.input.addEventListener('paste', event => this.take(event, event.clipboardData?.files));
    byId('cancel-edit').addEventListener('click', () => this.clear());
    const picker = byId<HTMLInputElement>('picker');
    picker.accept = info.files.types.join(',');
    byId('attach').addEventListener('click', () => picker.click());
    picker.addEventListener('change', () => {
      void this.attach(picker.files ?? undefined).then(() => (picker.value = ''));
    });
    document.addEventListener('dragover', event => {
      event.preventDefault();
      this.form.classList.add('drop');
    });
    document.addEventListener('dragleave', () => this.form.classList.remove('drop'));
    document.addEventListener('drop', event => {
      event.preventDefault();
      this.form.classList.remove('drop');
      this.take(event, event.dataTransfer?.files);
    });
  }

  set busy(is: boolean) {
    if (is === this.isBusy) return;
    this.isBusy = is;
    this.showMain();
    this.fit();
    this.main.classList.toggle('danger', is);
  }

  private showMain() {
    this.main.replaceChildren(icon(this.isBusy ? 'stop' : 'send'), this.isBusy ? 'Stop' : 'Send');
  }

  /** Puts back what could not be sent, unless something else has been written. */
  restore(draft: Draft) {
    if (this.input.value || this.attached.length) return;
    this.input.value = draft.text;
    this.attached = draft.files.map(part => ({ part, bytes: String(part['url']).length }));
    this.showFiles();
    this.fit();
  }

  /** Sends a text as if the user had written it. */
  suggest(text: string) {
    this.input.value = text;
    this.send();
  }

  edit(id: string, draft: Draft) {
    this.clear();
    this.edited = id;
    this.editing.hidden = false;
    this.restore(draft);
    this.input.focus();
  }

  clear() {
    this.edited = null;
    this.editing.hidden = true;
    this.input.value = '';
    this.attached = [];
    this.showFiles();
    this.fit();
  }

  private send(delivery: Delivery = 'steer') {
    const draft = { text: this.input.value.trim(), files: this.attached.map(one => one.part) };
    if (!draft.text && !draft.files.length) return;
    const { edited } = this;
    this.clear();
    if (!this.isBusy) {
      this.way.send(draft, edited);
      return;
    }
    this.way.steer(draft, delivery);
    this.input.focus(); // the pressed button is hidden now
  }

  private press(event: KeyboardEvent) {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.send(event.altKey ? 'queue' : 'steer');
    } else if (event.key === 'ArrowUp' && !this.input.value && !this.isBusy) {
      event.preventDefault();
      this.way.editLast();
    } else if (event.key === 'Escape' && this.edited) {
      event.stopPropagation();
      this.clear();
    }
  }

  private fit() {
    this.toRun.hidden = !this.isBusy || !(this.input.value.trim() || this.attached.length);
    this.input.style.height = 'auto';
    this.input.style.height = `${Math.min(this.input.scrollHeight, 240)}px`;
  }

  private take(event: Event, files: FileList | undefined) {
    if (!files?.length) return;
    event.preventDefault();
    void this.attach(files);
  }

  private async attach(files: FileList | undefined) {
    const { count, bytes, types } = this.info.files;
    for (const file of files ?? []) {
      const used = this.attached.reduce((sum, one) => sum + one.bytes, 0);
      const type = file.type.split(';')[0] ?? '';
      if (!isAllowed(type, types)) this.way.tell(`${file.name} is of the type ${type || 'unknown'}, which cannot be sent.`);
      else if (this.attached.length >= count) this.way.tell(`At most ${count} files can be sent at once.`);
      else if (used + file.size > bytes) this.way.tell(`${file.name} is too large: ${size(bytes)} can be sent at once.`);
      else this.attached.push({ part: { type: 'file', mediaType: type, filename: file.name, url: await read(file, type) }, bytes: file.size });
    }
    this.showFiles();
  }

  private showFiles() {
    const chips = this.attached.map((one, at) => {
      const name = String(one.part['filename'] ?? 'file');
      const remove = iconButton('×', `Remove ${name}`, () => {
        this.attached.splice(at, 1);
        this.showFiles();
        this.input.focus();
      });
      return h('li', { class: 'chip' }, `${name} · ${size(one.bytes)}`, remove);
    });
    this.files.replaceChildren(...chips);
    this.files.hidden = !chips.length;
    this.fit();
  }
}

function read(file: File, type: string): Promise<string> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result).replace(/^data:[^,]*;base64,/, `data:${type};base64,`));
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
}
