import type { ButtonHTMLAttributes } from 'preact';
import { useState } from 'preact/hooks';

type ActionButtonProperties = ButtonHTMLAttributes & { run(): Promise<void> };

/** Runs an action once at a time. The button keeps the focus, which `disabled` would drop. */
export function ActionButton({ run, ...attributes }: ActionButtonProperties) {
  const [isRunning, setRunning] = useState(false);
  const click = async () => {
    if (isRunning) return;
    setRunning(true);
    await run().finally(() => setRunning(false));
  };
  return (
    <button type="button" aria-disabled={isRunning || undefined} onClick={click} {...attributes} />
  );
}

export type Option = {
  readonly value: string;
  readonly label?: string;
  readonly disabled?: boolean;
};

type SelectProperties = {
  readonly id: string;
  readonly 'aria-labelledby'?: string;
  readonly value: string;
  readonly options: readonly Option[];
  onSelect(value: string): void;
};

export function Select({ options, onSelect, ...attributes }: SelectProperties) {
  return (
    <select {...attributes} onChange={({ currentTarget }) => onSelect(currentTarget.value)}>
      {options.map(({ value, label = value, disabled = false }) => (
        <option key={value} value={value} disabled={disabled}>
          {label}
        </option>
      ))}
    </select>
  );
}

type ChoiceProperties = SelectProperties & {
  readonly label: string;
  /** The id of a title that precedes the label in the name of the control. */
  readonly titleId: string;
};

/** A list with its label before it, in the head of a panel. */
export function Choice({ label, titleId, id, ...select }: ChoiceProperties) {
  return (
    <label class="inline" for={id}>
      <span id={`${id}-label`}>{label}</span>
      <Select id={id} aria-labelledby={`${titleId} ${id}-label`} {...select} />
    </label>
  );
}
