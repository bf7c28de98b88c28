/** Why a request or an input was refused, beside its control. */
export function Problem({ id, text }: { readonly id?: string; readonly text: string }) {
  return (
    <p class="problem" id={id} role="alert" hidden={text === ''}>
      {text}
    </p>
  );
}
