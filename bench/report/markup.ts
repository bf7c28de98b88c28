/** Text that is markup already. What is not is escaped where it is put into some. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Content = string | number | Markup | readonly Markup[];

/** A template that escapes whatever is put into it and is not markup itself. */
export function markup(strings: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  const texts = contents.map(textOf);
  return new Markup(strings.reduce((text, next, index) => text + texts[index - 1] + next));
}

function textOf(content: Content): string {
  if (content instanceof Markup) return content.text;
  if (typeof content === 'object') return content.map(({ text }) => text).join('\n');
  if (typeof content === 'number') return String(Math.round(content * 100) / 100);
  return content.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
