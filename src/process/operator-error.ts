/** A failure with a one-line message for operators. */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError';
}
