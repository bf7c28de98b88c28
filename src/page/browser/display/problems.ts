import { ApiProblem } from '../api/api.ts';
import { filterNamed } from '../view/filters.ts';
import { byId, moveFocus } from './elements.ts';

/** Shows why requests failed, next to the control of the parameter at fault. */

export function clearProblems(): void {
  for (const place of document.querySelectorAll<HTMLElement>('main .problem, main .banner')) {
    moveFocus(place, byId('main'));
    place.hidden = true;
  }
}

export type ProblemHandling = {
  /** Asks for another key. */
  refuse(problem: string): void;
  retry(): void;
};

export function showProblem(error: unknown, { refuse, retry }: ProblemHandling): void {
  if (!(error instanceof ApiProblem)) throw error;
  if (error.status === 401 || error.status === 403) {
    refuse(error.message);
    return;
  }
  const { param = '' } = error;
  const place = document.querySelector<HTMLElement>(
    `.problem[data-params~="${CSS.escape(param)}"]`,
  );
  if (place !== null) {
    const { label = param } = filterNamed(param) ?? {};
    place.textContent = error.message.replace(param, label);
    place.hidden = false;
    return;
  }
  const banner = byId('problem');
  const [text, button] = banner.children as unknown as [HTMLElement, HTMLButtonElement];
  text.textContent = error.message;
  button.onclick = retry;
  banner.hidden = false;
}
