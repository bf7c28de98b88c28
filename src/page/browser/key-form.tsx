import { useLayoutEffect, useRef } from 'preact/hooks';
import { isPossibleKey } from './api/key.ts';
import { Problem } from './components/problem.tsx';

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
    if (key === '') onProblem('Enter an API key.');
    else if (!isPossibleKey(key)) onProblem('An API key has letters, digits and underscores only.');
    else await onKey(key);
    input.current?.focus();
  };
  return (
    <section class="panel welcome">
      <h1>See what your shop sells</h1>
      <p>Enter an API key to see revenue, purchases and campaigns of its organization.</p>
      <form noValidate onSubmit={submit}>
        <label for="key">API key</label>
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
            Show data
          </button>
        </div>
        <Problem id="key-problem" text={problem} />
        <p class="hint" id="key-hint">
          The key stays in this tab and goes to this service alone. <code>npm&nbsp;start</code>{' '}
          prints a key; <code>npm&nbsp;run&nbsp;keys&nbsp;--&nbsp;create</code> makes one.
        </p>
      </form>
    </section>
  );
}
