/** A text of the catalogue: what is between backticks is code, which breaks in no line. */
export const Marked = ({ text }: { readonly text: string }) => (
  <>
    {text
      .split('`')
      .map((part, index) =>
        index % 2 === 0 ? part : <code key={part}>{part.replaceAll(' ', '\u00a0')}</code>,
      )}
  </>
);
