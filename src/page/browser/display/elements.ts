type Child = Node | string;

/** Creates an element. Text becomes text nodes, so it is never read as HTML. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

/** The element of an id, which page.html contains. */
export function byId<Type extends HTMLElement = HTMLElement>(id: string): Type {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found as Type;
}

/** Shows a template of page.html as the content of the page. */
export function showView(template: 'key-view' | 'dashboard-view' | 'record-view'): void {
  byId('main').replaceChildren(byId<HTMLTemplateElement>(template).content.cloneNode(true));
}

export function option(value: string, label = value): HTMLOptionElement {
  return element('option', { value }, label);
}

/** Moves the focus out of content that disappears, where the browser would drop it. */
export function moveFocus(from: HTMLElement, to: HTMLElement): void {
  if (from.contains(document.activeElement)) to.focus();
}

/** Runs an action once at a time. The button keeps the focus, which `disabled` would drop. */
export async function runOnce(button: HTMLElement, action: () => Promise<void>): Promise<void> {
  if (button.ariaDisabled === 'true') return;
  button.ariaDisabled = 'true';
  await action().finally(() => {
    button.ariaDisabled = null;
  });
}

/** A message for screen readers. */
export function announce(text: string): void {
  byId('status').textContent = text;
}
