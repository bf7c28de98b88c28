/** Escaped text of HTML. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Content = string | number | Markup | readonly Markup[];

/** A template that escapes all values except markup. */
export function markup(strings: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  return new Markup(String.raw({ raw: strings }, ...contents.map(textOf)));
}

function textOf(content: Content): string {
  if (content instanceof Markup) return content.text;
  if (typeof content === 'object') return content.map(({ text }) => text).join('\n');
  if (typeof content === 'number') return String(Math.round(content * 100) / 100);
  return content.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
