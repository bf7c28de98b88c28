import { get } from './api/api.ts';
import { forgetKey, isPossibleKey, keepKey } from './api/key.ts';
import { byId, showView } from './display/elements.ts';

/** Asks for a key until the service accepts one. */
export function askForKey(onAccepted: () => void, problem?: string): void {
  showView('key-view');
  const input = byId<HTMLInputElement>('key');
  const message = byId('key-problem');
  const show = (text: string) => {
    message.textContent = text;
    message.hidden = text === '';
    input.ariaInvalid = String(text !== '');
    input.focus();
  };
  show(problem ?? '');
  byId('key-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key === '') return show('Enter an API key.');
    if (!isPossibleKey(key)) return show('An API key has letters, digits and underscores only.');
    keepKey(key);
    try {
      await get('/v1/me');
    } catch (error) {
      forgetKey();
      return show((error as Error).message);
    }
    onAccepted();
    byId('main').focus();
  });
}
