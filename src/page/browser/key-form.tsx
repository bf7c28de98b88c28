import { useLayoutEffect, useRef } from 'preact/hooks';
import { isPossibleKey } from './api/key.ts';
import { Marked } from './components/marked.tsx';
import { Problem } from './components/problem.tsx';
import { texts } from './language/language.ts';

type KeyFormProperties = {
  /** Why the last key was refused; empty if it was not. */
  readonly problem: string;
  onProblem(problem: string): void;
  /** When the user begins to enter a key. */
  onInput(): void;
  onKey(key: string): Promise<void>;
};

/** Asks for a key until the service accepts one. */
export function KeyForm({ problem, onProblem, onInput, onKey }: KeyFormProperties) {
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    const key = input.current?.value.trim() ?? '';
    if (key === '') onProblem(texts.keyForm.missing);
    else if (!isPossibleKey(key)) onProblem(texts.keyForm.impossible);
    else await onKey(key);
    input.current?.focus();
  };
  return (
    <section class="panel welcome">
      <h1>{texts.keyForm.title}</h1>
      <p>{texts.keyForm.introduction}</p>
      <form noValidate onSubmit={submit}>
        <label for="key">{texts.keyForm.key}</label>
        <div class="key-row">
          <input
            ref={input}
            id="key"
            type="password"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            placeholder="crm_live_…"
            aria-describedby="key-problem key-hint"
            aria-invalid={problem !== ''}
            required
            onInput={onInput}
          />
          <button type="submit" class="primary">
            {texts.keyForm.submit}
          </button>
        </div>
        <Problem id="key-problem" text={problem} />
        <p class="hint" id="key-hint">
          <Marked text={texts.keyForm.hint} />
        </p>
      </form>
    </section>
  );
}
