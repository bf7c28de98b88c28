/** A text of the data, which is cut if it is long (base.css). The whole text is its title. */
export const Label = ({ text }: { readonly text: string }) => (
  <span class="label" title={text}>
    {text}
  </span>
);
