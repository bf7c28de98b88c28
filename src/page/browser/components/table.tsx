import type { ComponentChildren } from 'preact';

type Column = { readonly name: string; readonly isNumber?: boolean; readonly title?: string };

type TableProperties = {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly children: ComponentChildren;
};

/** A table that scrolls sideways in a narrow place, also by keyboard. */
export function Table({ label, columns, children }: TableProperties) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls only what has the focus.
    <section class="scroll" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name, isNumber = false, title }) => (
              <th key={name} scope="col" class={isNumber ? 'number' : undefined} title={title}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}
