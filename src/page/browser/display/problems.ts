import { ApiProblem } from '../api/api.ts';
import { filterNamed } from '../view/filters.ts';
import { byId, moveFocus } from './elements.ts';

/** Shows why requests failed, next to the control of the parameter at fault. */

export function clearProblems(): void {
  for (const container of document.querySelectorAll<HTMLElement>('main .problem, main .banner')) {
    moveFocus(container, byId('main'));
    container.hidden = true;
  }
}

export type ProblemHandling = {
  /** Asks for another key. */
  onKeyRefused(problem: string): void;
  retry(): void;
};

export function showProblem(error: unknown, { onKeyRefused, retry }: ProblemHandling): void {
  if (!(error instanceof ApiProblem)) throw error;
  if (error.status === 401 || error.status === 403) {
    onKeyRefused(error.message);
    return;
  }
  const { param = '' } = error;
  const container = document.querySelector<HTMLElement>(
    `.problem[data-params~="${CSS.escape(param)}"]`,
  );
  if (container !== null) {
    const { label = param } = filterNamed(param) ?? {};
    container.textContent = error.message.replace(param, label);
    container.hidden = false;
    return;
  }
  const banner = byId('problem');
  const [text, button] = banner.children as unknown as [HTMLElement, HTMLButtonElement];
  text.textContent = error.message;
  button.onclick = retry;
  banner.hidden = false;
}
