type LabelProperties = { readonly text: string; readonly title?: string };

/** A text of the data, which is cut if it is long (base.css). Its title has the whole text. */
export const Label = ({ text, title = text }: LabelProperties) => (
  <span class="label" title={title}>
    {text}
  </span>
);
