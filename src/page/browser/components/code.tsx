/** Text for a shell. It scrolls sideways, also by keyboard. */
export function Code({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls only what has the focus.
    <pre tabIndex={0}>
      <code>{text}</code>
    </pre>
  );
}
